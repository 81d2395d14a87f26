package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

func flusherOptions(
	d *sidecar, c *config.Config, engine upstream.Engine, registry *prometheus.Registry,
) upstream.FlusherOptions {
	flushes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "botwired_flushes_total",
		Help: "Writes sent upstream, by operation and outcome.",
	}, []string{"operation", "outcome"})
	fences := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "botwired_fences_total",
		Help: "Comparisons of an entry upstream before a write overwrites it, by outcome.",
	}, []string{"outcome"})
	reads := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "botwired_fence_reads_total",
		Help: "Reads of upstream that the comparisons have made.",
	})
	first, longest := upstream.Pauses(c.Upstream.Timeout)
	registry.MustRegister(flushes, fences, reads)
	return upstream.FlusherOptions{
		Journal: d.journal, Through: d.journal.Through, Engine: engine, Health: d.health,
		FenceJournal: d.journal.Fence, Offset: d.offset,
		Fence: func(namespace string) bool {
			p := d.config.Load().For(namespace)
			return p.Fence && !p.Exclusive
		},
		BeforeSend: func() { d.watch.CheckDurably() },
		OnFence: func(outcome string, requests int) {
			fences.WithLabelValues(outcome).Inc()
			reads.Add(float64(requests))
		},
		Linger:  func(namespace string) time.Duration { return d.config.Load().For(namespace).Linger },
		Timeout: c.Upstream.Timeout, LateWindow: c.Upstream.LateWindow,
		BackoffInitial: first, BackoffMax: longest,
		OnSend: func(w journal.Write) { d.proxy.Sending(w) },
		OnOutcome: func(op journal.Op, verdict upstream.Verdict) {
			flushes.WithLabelValues(op.String(), verdict.String()).Inc()
			d.sent.Add(1)
		},
		OnSettled:       func(w journal.Write) { d.proxy.Settled(w) },
		OnNamespaceFull: d.sizes.Learn,
		Logger:          d.logger,
	}
}
