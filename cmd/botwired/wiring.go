package main

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/telemetry"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/quota"
)

func flusherOptions(d *sidecar, c *config.Config, backend upstream.Backend) flush.Options {
	first, longest := upstream.Pauses(c.Upstream.Timeout)
	return flush.Options{
		Journal: d.journal, Engine: backend, Host: backend.Host, Health: d.health,
		FenceJournal: d.journal.Fence,
		OnFence: func(outcome string, requests int) {
			d.metrics.Fences.WithLabelValues(outcome).Inc()
			d.metrics.FenceReads.Add(float64(requests))
		},
		Linger:         d.config.linger,
		LateWindow:     lateWindow(c),
		Timeout:        c.Upstream.Timeout,
		BackoffInitial: first, BackoffMax: longest,
		OnSend: func(w journal.Write) { d.proxy.Sending(w) },
		OnOutcome: func(op journal.Op, verdict upstream.Verdict) {
			d.metrics.Flushes.WithLabelValues(op.String(), verdict.String()).Inc()
			d.sent.Add(1)
		},
		OnSettled: func(w journal.Write) { d.proxy.Settled(w) },
		Logger:    d.logger,
	}
}

// lateWindow returns how long upstream may still carry out a request that it has not answered. The embedded one ends
// with the daemon, and carries out what it has read.
func lateWindow(c *config.Config) time.Duration {
	if c.Upstream.Kind() == config.KindEmbedded {
		return 0
	}
	return c.Upstream.LateWindow
}

const quotaFile = "journal.quota"

// openQuotas opens the namespaces' quotas. Their counts are kept beside the journal.
func (d *sidecar) openQuotas(c *config.Config) *quota.Quotas {
	quotas := quota.New(quota.Options{
		Of:     d.config.quota,
		Ledger: quota.OpenLedger(filepath.Join(c.DataDir, quotaFile), nil, d.logger),
		Logger: d.logger,
	})
	d.requota = quotas.Changed
	d.onClose(func() error {
		if err := quotas.Close(); err != nil { // no acknowledged write depends on it
			d.logger.Warn("the quota's count could not be written to the disk: the next start goes by what was recorded before", "error", err)
		}
		return nil
	})
	return quotas
}

func quotasForStatus(quotas *quota.Quotas) func() map[string]api.Quota {
	return func() map[string]api.Quota {
		all := make(map[string]api.Quota)
		for namespace, r := range quotas.Reports() {
			shown := api.Quota{
				Limit: r.Limit, Used: r.Used, Left: r.Left,
				ResetsAt: r.ResetsAt.UTC().Round(time.Millisecond), LingerSeconds: float64(r.Linger.Milliseconds()) / 1e3,
			}
			if at := r.RunsOutAt.UTC().Round(time.Millisecond); !r.RunsOutAt.IsZero() {
				shown.RunsOutAt = &at
			}
			all[namespace] = shown
		}
		return all
	}
}

func (d *sidecar) readMetrics(quotas *quota.Quotas) {
	d.metrics.Read(metrics.Sources{
		Status: d.proxy.Status, Journal: d.journal, Cache: d.cache, Quotas: quotas, Disk: d.proxy.DiskUsage, Coalesced: d.flusher.Saved,
	})
}

// tracerGrace limits how long the daemon's end waits for the last spans.
const tracerGrace = time.Second

// openTracer returns the tracer, or nil if the environment asks for none. A failure does not keep the
// daemon from starting: agents do not depend on spans.
func (d *sidecar) openTracer() *telemetry.Tracer {
	wanted, err := telemetry.Wanted(os.Getenv)
	var tracer *telemetry.Tracer
	if wanted {
		tracer, err = telemetry.Open(context.Background(), build.Version(), d.logger)
	}
	if err != nil {
		d.logger.Warn("botwired exports no spans", "error", err)
		return nil
	}
	if tracer != nil {
		d.onClose(func() error { tracer.Close(tracerGrace); return nil })
	}
	return tracer
}

// inForce is the configuration in force. Its methods return a namespace's settings to the daemon's
// parts, which ask each time because a reload may change them.
type inForce struct{ atomic.Pointer[config.Config] }

func (c *inForce) of(namespace string) config.Policy { return c.Load().For(namespace) }

func (c *inForce) cachePolicy(namespace string) cache.Policy {
	p := c.of(namespace)
	out := cache.Policy{
		FreshFor: p.FreshFor, StaleWhileRevalidate: p.StaleWhileRevalidate,
		StaleIfError: p.StaleIfError, AbsentFor: p.AbsentFor,
	}
	if p.StaleIfError == config.NoLimit {
		out.StaleIfError = cache.Forever
	}
	return out
}

func (c *inForce) writeThrough(namespace string) bool { return c.of(namespace).WriteThrough }

func (c *inForce) prefetch(namespace string) bool { return c.of(namespace).Prefetch }

func (c *inForce) assumeAbsent(namespace string) bool {
	return c.of(namespace).Offline == config.AssumeAbsent
}

func (c *inForce) linger(namespace string) time.Duration { return c.of(namespace).Linger }

func (c *inForce) quota(namespace string) quota.Limit {
	q := c.of(namespace).Quota
	return quota.Limit{Writes: q.WritesPerDay, Period: q.Period, MaxAge: q.MaxAge}
}

func (c *inForce) maxBytes(namespace string) int64 { return c.of(namespace).Quota.NamespaceBytes }
