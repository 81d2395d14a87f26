package day

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/guard"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/limit"
	"github.com/botwired/botwired/upstream/quota"
)

// daemon is a whole one, as cmd/botwired wires it, but that its callers and its upstream are at the
// other end of pipes, and that it does not watch whether the machine was suspended: the real clock does
// not follow the virtual one.
type daemon struct {
	config   *config.Config
	logger   *slog.Logger
	journal  *journal.Journal
	cache    *cache.Cache
	engine   *botwire.Client
	health   *upstream.Health
	slots    *limit.Slots
	quotas   *quota.Quotas
	flusher  *flush.Flusher
	proxy    *proxy.Server
	listener *pipe.Listener
	server   *fastpath.Server
	stop     context.CancelFunc
	ended    chan error
}

// openDaemon opens a daemon in front of a service, in the settings that it has by default in front of
// botwire.dev, but for the quota.
func openDaemon(dir string, up *service, logger *slog.Logger) (*daemon, error) {
	loaded, err := config.Load(config.Sources{Flags: map[string]string{
		"data_dir": dir, "quota.writes_per_day": strconv.Itoa(up.quota), "quota.period": up.period.String(),
	}, File: "/dev/null"})
	if err != nil {
		return nil, err
	}
	d := &daemon{config: &loaded.Config, logger: logger, listener: pipe.Listen()}
	if d.cache, err = cache.New(d.config.Cache.Memory); err != nil {
		return nil, err
	}
	if err := d.openJournal(); err != nil {
		return nil, err
	}
	d.engine = botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: "http", Host: "localhost"}, Timeout: d.config.Upstream.Timeout, Concurrency: d.config.Upstream.Concurrency,
		UserAgent: "botwired/day", Dial: up.dial,
	})
	d.openFlusher()
	d.journal.Subscribe(func(c journal.Change) {
		d.cache.Changed(c.Namespace, c.Key)
		d.flusher.Changed(c)
		d.proxy.Changed(c)
	})
	if err := d.openProxy(); err != nil {
		return nil, err
	}
	admits := guard.New(guard.Options{}, d.proxy)
	d.server = fastpath.New(d.listener, fastpath.Options{
		HTTP: &http.Server{
			Handler: admits, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
			IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		},
		Admits: admits.Admits, Answer: d.proxy.AnswerSimple, BodyMatters: proxy.BodyMatters, Logger: logger,
	})
	return d, nil
}

func (d *daemon) openJournal() (err error) {
	d.journal, err = journal.Open(journal.Options{
		Dir: filepath.Join(d.config.DataDir, "journal"), MaxBytes: d.config.Journal.MaxBytes, CopiesBytes: d.config.Cache.Disk,
		DiskReserve: d.config.Journal.DiskReserve, Logger: d.logger,
		LossLimit: journal.UsualLossLimit,
	})
	return err
}

func (d *daemon) openFlusher() {
	first, longest := upstream.Pauses(d.config.Upstream.Timeout)
	d.health = upstream.NewHealth(upstream.HealthOptions{
		BackoffInitial: first, BackoffMax: longest, Logger: d.logger,
	})
	d.slots = limit.NewSlots(d.config.Upstream.Concurrency)
	d.quotas = quota.New(quota.Options{
		Of: func(namespace string) quota.Limit {
			q := d.config.For(namespace).Quota
			return quota.Limit{Writes: q.WritesPerDay, Period: q.Period, MaxAge: q.MaxAge}
		},
		Ledger: quota.OpenLedger(filepath.Join(d.config.DataDir, "journal.quota"), nil, d.logger),
		Logger: d.logger,
	})
	d.flusher = flush.New(flush.Options{
		Journal: d.journal, Engine: d.engine, Health: d.health, Slots: d.slots, Quotas: d.quotas,
		FenceJournal:   d.journal.Fence,
		Linger:         func(namespace string) time.Duration { return d.config.For(namespace).Linger },
		LateWindow:     d.config.Upstream.LateWindow,
		Timeout:        d.config.Upstream.Timeout,
		BackoffInitial: first, BackoffMax: longest,
		OnSend: func(w journal.Write) { d.proxy.Sending(w) }, OnSettled: func(w journal.Write) { d.proxy.Settled(w) },
		Logger: d.logger,
	})
}

func (d *daemon) openProxy() (err error) {
	first, longest := upstream.Pauses(d.config.Upstream.Timeout)
	reader := upstream.NewReader(upstream.ReaderOptions{
		Engine: d.engine, Health: d.health, Slots: d.slots, Patience: upstream.Patience(d.config.Upstream.Timeout),
		BackoffInitial: first, BackoffMax: longest,
	})
	opts := proxy.Options{Forward: http.NotFoundHandler()}
	opts.Journal, opts.Cache, opts.Upstream, opts.Flusher, opts.Logger = d.journal, d.cache, reader, d.flusher, d.logger
	opts.Policy = func(namespace string) cache.Policy {
		p := d.config.For(namespace)
		return cache.Policy{
			FreshFor: p.FreshFor, StaleWhileRevalidate: p.StaleWhileRevalidate, StaleIfError: cache.Forever, AbsentFor: p.AbsentFor,
		}
	}
	opts.WriteThrough = func(namespace string) bool { return d.config.For(namespace).WriteThrough }
	opts.ConfirmWithin = d.config.Upstream.Timeout
	opts.Prefetch = func(namespace string) bool { return d.config.For(namespace).Prefetch }
	opts.UpstreamState, opts.ReadsRefused, opts.DataDir = d.upstreamState, reader.Refused, d.config.DataDir
	opts.Metrics = metrics.New(metrics.Build{})
	d.proxy, err = proxy.New(opts)
	return err
}

func (d *daemon) upstreamState() api.UpstreamState {
	r := d.health.Report()
	return api.UpstreamState{
		State: string(r.State), Since: r.Since, Reason: r.Reason, LastSuccessAt: &r.LastSuccess,
		Concurrency: api.Concurrency(d.slots.Concurrency()),
	}
}

// start runs the daemon until end.
func (d *daemon) start() {
	ctx, stop := context.WithCancel(context.Background())
	work := []func(context.Context) error{d.keepJournal, d.flusher.Run, d.proxy.Run, func(context.Context) error { return d.server.Serve() }}
	d.stop, d.ended = stop, make(chan error, len(work))
	for _, run := range work {
		go func() { d.ended <- run(ctx) }()
	}
}

func (d *daemon) keepJournal(ctx context.Context) error {
	if err := d.journal.Run(ctx); err != nil {
		return err
	}
	return d.journal.Maintain(ctx)
}

// end stops everything. No caller is left.
func (d *daemon) end() (err error) {
	d.stop()
	err = d.server.Close()
	for range cap(d.ended) {
		if e := <-d.ended; !errors.Is(e, context.Canceled) && !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	d.proxy.Close()
	d.engine.Close()
	err = errors.Join(err, d.quotas.Close(), d.journal.Close())
	d.cache.Close()
	return err
}

// caller is an agent's connection to the daemon: it dials when it needs one.
type caller struct {
	daemon *daemon
	conn   net.Conn
	in     *bufio.Reader
	out    []byte
	body   bytes.Buffer
}

// do implements [memory], with the headers that Python's SDK sends.
func (c *caller) do(method, path, body, condition string) (*answer, error) {
	if c.conn == nil {
		conn, err := c.daemon.listener.Dial(context.Background())
		if err != nil {
			return nil, err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: python-httpx/0.28\r\n", method, path)
	if method == http.MethodPut {
		c.out = fmt.Appendf(c.out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	if condition != "" {
		c.out = append(append(c.out, condition...), "\r\n"...)
	}
	c.out = append(append(c.out, "\r\n"...), body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	c.body.Reset()
	_, err = c.body.ReadFrom(resp.Body)
	return &answer{resp.StatusCode, resp.Header.Get("ETag"), c.body.Bytes()}, errors.Join(err, resp.Body.Close())
}

func (c *caller) rest() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn = nil
}

// lines keeps the first lines of a log, which has none on a good day but of its start.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() < 64<<10 {
		l.text.Write(p)
	}
	return len(p), nil
}
