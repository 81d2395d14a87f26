package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/guard"
	"github.com/botwired/botwired/internal/mcp"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/via"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/proxy/dashboard"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/surface"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/limit"
)

const journalDir = "journal"

const (
	// insideConns is how many in-process connections stay open for the next MCP request, each for up to
	// insideIdle.
	insideConns = 16
	insideIdle  = time.Minute
)

type sidecar struct {
	logger  *slog.Logger
	journal *journal.Journal
	cache   *cache.Cache
	health  *upstream.Health
	slots   *limit.Slots
	engine  engines.Opened
	flusher *flush.Flusher
	proxy   *proxy.Server
	door    door
	prover  *attach.Prover
	opened  atomic.Bool // the fields above are set
	opening atomic.Pointer[opening]
	sent    atomic.Int64 // attempts to send a write
	address string       // of the TCP listener; "" for a Unix socket
	chain   *via.Chain
	metrics *metrics.Metrics

	config   inForce // see configure
	hasToken atomic.Bool
	token    string // only configure changes it
	readmit  func() // makes the server ask the guard again about callers that it knows
	// outlived says that the service manager holds a copy of the listener, which accepts callers after
	// the daemon has ended. endConnections tells each caller that its connection ends.
	outlived       bool
	waiters        int // see [surface.Options]
	endConnections func()
	requota        func() // applies changed quotas

	isRead  func()               // called when the journal is read; may be nil
	drained func(attach.Drained) // gets the result of stop; may be nil

	closers []func() error // in the order of opening
}

// open opens every part and starts none. On an error it closes what it has opened. awaitRoom is for the
// journal.
func (d *sidecar) open(ctx context.Context, c *config.Config, fatal func(error), awaitRoom func(needed int64) error) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := refusePlanted(c.DataDir); err != nil {
		return fmt.Errorf("data_dir = %q: %w", c.DataDir, err)
	}
	if d.cache, err = cache.New(c.Cache.Memory); err != nil {
		return err
	}
	d.onClose(func() error { d.cache.Close(); return nil })
	gone := journalIsGone(c.DataDir) // guard 13.22
	if err := d.openJournal(c, fatal, awaitRoom); err != nil {
		return err
	}
	if gone {
		d.logger.Warn("the data directory was used before, and its journal is gone: botwired has begun an empty one. "+
			"Writes that were pending in the old one do not go upstream. If you still have it, stop botwired, put it in the place of the new one, and start again",
			"journal", filepath.Join(c.DataDir, journalDir))
	}
	// We hold the journal's lock: no other daemon uses the directory.
	keepOthersOut(c.DataDir, d.logger)
	if err := bindUpstream(c, d.journal); err != nil { // guard 13.19
		return fmt.Errorf("data_dir = %q: %w", c.DataDir, words.Unusable(err))
	}
	d.prover.Prepare(d.logger)
	d.engine, err = engines.Open(ctx, c, engines.Options{
		Logger: d.logger, Chain: d.chain, HasToken: d.hasToken.Load, Journal: d.journal,
	})
	if err != nil {
		return err
	}
	d.onClose(d.engine.Close)
	return d.openProxy(c)
}

func (d *sidecar) onClose(f func() error) { d.closers = append(d.closers, f) }

func (d *sidecar) close() error {
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		errs = append(errs, d.closers[i]())
	}
	d.closers = nil
	return errors.Join(errs...)
}

func (d *sidecar) openJournal(c *config.Config, fatal func(error), awaitRoom func(needed int64) error) (err error) {
	d.journal, err = journal.Open(journal.Options{
		Dir:          filepath.Join(c.DataDir, journalDir),
		MaxBytes:     c.Journal.MaxBytes,
		CopiesBytes:  c.Cache.Disk,
		HistoryBytes: c.History.Disk,
		DiskReserve:  c.Journal.DiskReserve,
		Full:         d.full,
		LossLimit:    journal.UsualLossLimit,
		Fatal:        fatal,
		AwaitRoom:    awaitRoom,
		Exact:        c.Upstream.Kind().Exact(),
		Named:        func(namespace string) bool { return c.For(namespace).Sealed },
		NotBefore:    d.notBefore,
		Seen:         d.seen,
		Logger:       d.logger,
	})
	if errors.Is(err, journal.ErrInUse) { // guard 20.2
		return fmt.Errorf("data_dir = %q: another botwired uses it: stop it, or choose another directory", c.DataDir)
	}
	if err != nil {
		return fmt.Errorf("data_dir = %q: %w", c.DataDir, words.Unusable(err))
	}
	d.onClose(d.journal.Close)
	return nil
}

// notBefore is the journal's Options.NotBefore. The engine is opened after the journal but before its
// first write.
func (d *sidecar) notBefore(id journal.ID) float64 {
	if d.engine.View == nil {
		return 0
	}
	return d.engine.View.NotBefore(id)
}

// full is the journal's Options.Full: see notBefore.
func (d *sidecar) full(namespace string) bool { return d.flusher.Full(namespace) != "" }

// seen is the journal's Options.Seen: see notBefore.
func (d *sidecar) seen() []byte {
	if d.engine.Seen == nil {
		return nil
	}
	return d.engine.Seen()
}

func (d *sidecar) openProxy(c *config.Config) (err error) {
	b := build.This()
	d.metrics = metrics.New(metrics.Build{Version: b.Version, Go: b.Go, Platform: b.Platform, Revision: b.Revision})
	traces, tracer := trace.NewWrites(), d.openTracer()
	d.engine.Backend = measure(d.engine.Backend, traces, tracer, d.metrics.UpstreamRequests)
	engine := d.engine.Backend
	d.config.Store(c)
	first, longest := upstream.Pauses(c.Upstream.Timeout)
	d.health = upstream.NewHealth(upstream.HealthOptions{
		BackoffInitial: first, BackoffMax: longest, Logger: d.logger,
		OnState: func(r upstream.Report) { d.proxy.UpstreamChanged(upstreamStateOf(r)) },
	})
	d.slots = limit.NewSlots(c.Upstream.Concurrency)
	quotas := d.openQuotas(c)
	flushing := flusherOptions(d, c, engine)
	flushing.Slots, flushing.Quotas = d.slots, quotas
	d.flusher = flush.New(flushing)
	d.journal.Subscribe(d.changed) // the cache and the flusher exist, and nothing runs yet
	reader := upstream.NewReader(upstream.ReaderOptions{
		Engine: engine, Health: d.health, Slots: d.slots, Patience: upstream.Patience(c.Upstream.Timeout),
		BackoffInitial: first, BackoffMax: longest,
	})
	opts := proxy.Options{Options: surface.Options{
		Options: memory.Options{
			Journal: d.journal, Cache: d.cache, Upstream: reader, Flusher: d.flusher,
			Exact:        engine.Exact(),
			View:         engine.View,
			Policy:       d.config.cachePolicy,
			WriteThrough: d.config.writeThrough, ConfirmWithin: c.Upstream.Timeout,
			Prefetch:     d.config.prefetch,
			AssumeAbsent: d.config.assumeAbsent,
			Traces:       traces,
			Metrics:      d.metrics,
			Logger:       d.logger,
		},
		UpstreamURL:   c.Upstream.URL,
		UpstreamState: d.upstreamState,
		ReadsRefused:  reader.Refused,
		Quotas:        quotasForStatus(quotas),
		Writes:        func() (sent, saved int64) { return d.sent.Load(), d.flusher.Saved() },
		DataDir:       c.DataDir,
		Listen:        cmp.Or(d.address, c.Listen),
		MaxBytes:      d.config.maxBytes,
		Version:       build.Version(),
		Waiters:       d.waiters,
	}, Forward: d.engine.Forward}
	if d.engine.Sealed != nil {
		opts.Check = d.engine.Sealed.Check
	}
	if len(c.Sealing()) > 0 {
		opts.Sealed, opts.NotOpened = func(namespace string) bool { return c.For(namespace).Sealed }, d.engine.Sealed.NotOpened
	}
	if tracer != nil {
		opts.Tracer = tracer
	}
	if engine.View != nil {
		opts.Watch = watch{engine.View}
	}
	if engine.Revisions != nil {
		opts.Revisions, opts.Host = versionsOf(engine), engine.Host
	}
	if engine.Purge != nil {
		opts.PurgeVersions = purgeOf(engine)
	}
	inside := pipe.Listen() // the guard stands in front of those who use it
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return inside.Dial(ctx) },
		MaxIdleConnsPerHost: insideConns, IdleConnTimeout: insideIdle, DisableCompression: true,
	}
	opts.MCP = mcp.New(mcp.Options{
		Daemon: api.Options{Transport: transport}, Version: build.Version(), Logger: d.logger,
	}).Handler()
	if d.proxy, err = proxy.New(opts); err != nil {
		return err
	}
	d.onClose(func() error { d.proxy.Close(); return nil })
	d.readMetrics(quotas)
	if engine.View != nil {
		engine.View.Usable(func() { d.flusher.TryNow("") })
		engine.View.Follow(func(id journal.ID, now upstream.Version) { d.proxy.VersionSeen(id, now.Writer.Host == engine.Host) })
	}
	end := inside.Serve(newHTTPServer(d.proxy, d.logger))
	d.onClose(func() error { transport.CloseIdleConnections(); return end() })
	_, err = d.configure(c)
	return err
}

// guardOptions exempts livez and readyz from the token, because probes cannot send one, and allows
// links to the dashboard.
func guardOptions(c *config.Config, token string) guard.Options {
	_, socket := c.Socket()
	return guard.Options{
		Hosts: c.AllowedHosts, Origins: c.AllowedOrigins, Token: token, AnyHost: socket,
		Linked: dashboard.Opens,
		TokenExempt: func(r *http.Request) bool {
			return r.URL.Path == "/_botwired/livez" || r.URL.Path == "/_botwired/readyz"
		},
	}
}

func (d *sidecar) upstreamState() api.UpstreamState {
	now := upstreamStateOf(d.health.Report())
	now.Concurrency = api.Concurrency(d.slots.Concurrency())
	return now
}

func upstreamStateOf(r upstream.Report) api.UpstreamState {
	state := api.UpstreamState{State: string(r.State), Since: r.Since, Reason: r.Reason, Sick: r.Sick}
	if !r.LastSuccess.IsZero() {
		state.LastSuccessAt = &r.LastSuccess
	}
	return state
}
