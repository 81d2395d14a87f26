package sim

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/limit"
	"github.com/botwired/botwired/upstream/quota"
	"github.com/botwired/botwired/upstream/sealed"
)

// The settings of the simulated daemon: the defaults.
const (
	requestTimeout = 10 * time.Second
	concurrency    = 16
	lateWindow     = 30 * time.Second
	linger         = 100 * time.Millisecond
	backoffInitial = 200 * time.Millisecond
	backoffMax     = 30 * time.Second
	diskReserve    = 64 << 20
)

// settings are those in which simulated daemons differ.
type settings struct {
	scheme                     string // of upstream's URL; empty is http
	memory                     int64  // of the cache, in bytes
	linger, lateWindow         time.Duration
	backoffInitial, backoffMax time.Duration
	patience                   time.Duration
	policy                     cache.Policy
	quota                      quota.Limit
	through                    bool // all namespaces write through
	lists                      bool // namespaces in use are listed in the background
	losses                     journal.LossLimit
	name                       string // among several hosts
	// clone, if not empty, is the name that its versions have, as it was started anew on another host's copied directory.
	// earlier then has that host's name, and the last number that was in the copy.
	clone   string
	earlier upstream.Earlier
	// skew is how far the daemon's clock is ahead of upstream's: see [service.skewed].
	skew time.Duration
	link *link // to upstream; nil is one that nobody cuts
	// engine, if not nil, stands between the daemon and its requests upstream.
	engine func(upstream.Engine) upstream.Engine
	keys   *seal.Keys // seal all namespaces; nil: none is sealed
	// opened, if not nil, stands between the daemon and the sealing.
	opened func(upstream.Engine) upstream.Engine
}

// link is a daemon's way to upstream.
type link struct{ cut atomic.Bool }

// usual are the defaults, but for the cache's memory.
var usual = settings{
	memory: 1 << 20, linger: linger, lateWindow: lateWindow,
	backoffInitial: backoffInitial, backoffMax: backoffMax, patience: 5 * time.Second,
	policy: cache.Policy{
		FreshFor: 10 * time.Second, StaleWhileRevalidate: time.Minute, StaleIfError: cache.Forever, AbsentFor: 2 * time.Second,
	},
}

// node is one life of the daemon, from a start to a stop or a crash.
type node struct {
	journal  *journal.Journal
	cache    *cache.Cache
	engine   *botwire.Client
	sealed   *sealed.Engine // nil if no namespace is sealed
	health   *upstream.Health
	quotas   *quota.Quotas
	slots    *limit.Slots
	flusher  *flush.Flusher
	proxy    *proxy.Server
	with     settings
	up       *service
	began    time.Time
	ignorant map[journal.ID]bool // knew nothing of an entry when its pending write was made
	stop     context.CancelFunc
	ended    chan error

	mu      sync.Mutex
	conns   []net.Conn
	severed bool
}

// dial connects to upstream until sever.
func (n *node) dial(ctx context.Context, up *service) (net.Conn, error) {
	conn, err := up.dial(ctx)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.severed || n.with.link != nil && n.with.link.cut.Load() {
		return nil, errors.Join(syscall.ECONNREFUSED, conn.Close())
	}
	n.conns = append(n.conns, conn)
	return conn, nil
}

// hangUp ends the node's connections.
func (n *node) hangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// sever cuts the node off from upstream: it has crashed and does not know it yet.
func (n *node) sever() {
	n.mu.Lock()
	n.severed = true
	n.mu.Unlock()
	n.hangUp()
}

func (n *node) isSevered() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.severed
}

// bootClock is the clock of the machine, which never boots anew.
func bootClock() (boot string, since time.Duration) { return "boot", time.Since(time.Unix(0, 0)) }

// open wires a daemon as cmd/botwired does.
func open(fs vfs.FS, up *service, with settings) (*node, error) {
	time.Sleep(time.Millisecond) // what an earlier daemon has written is older than this one's start
	n := &node{with: with, up: up, began: time.Now(), ignorant: make(map[journal.ID]bool)}
	up.starts(with.name)
	logger := slog.New(slog.NewTextHandler(up, nil))
	var err error
	if n.cache, err = cache.New(with.memory); err != nil {
		return nil, err
	}
	opts := journal.Options{Dir: "data", FS: fs, Logger: logger, DiskReserve: diskReserve, LossLimit: with.losses, BootClock: bootClock}
	all := func(string) bool { return true }
	if with.keys != nil {
		opts.Named = all
	}
	n.journal, err = journal.Open(opts)
	if err != nil {
		return nil, err
	}
	n.engine = botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: cmp.Or(with.scheme, "http"), Host: "localhost"}, Timeout: requestTimeout, Concurrency: concurrency,
		UserAgent: "sim", Headers: http.Header{skewHeader: {with.skew.String()}, hostHeader: {with.name}},
		Dial: func(ctx context.Context) (net.Conn, error) { return n.dial(ctx, up) },
	})
	engine := upstream.Engine(n.engine)
	if with.engine != nil {
		engine = with.engine(engine)
	}
	host := ""
	if with.keys != nil {
		host = cmp.Or(with.clone, with.name)
		if with.clone != "" && len(with.earlier) == 0 {
			with.earlier[with.name] = n.journal.Stats().LastSeq
		}
		n.sealed = sealed.New(upstream.Backend{Engine: engine}, host, sealed.Options{Earlier: with.earlier, Keys: with.keys, Sealed: all, Logger: logger})
		engine = n.sealed
	}
	if with.opened != nil {
		engine = with.opened(engine)
	}
	n.health = upstream.NewHealth(upstream.HealthOptions{
		BackoffInitial: with.backoffInitial, BackoffMax: with.backoffMax, Logger: logger,
	})
	n.quotas = quota.New(quota.Options{
		Of: func(string) quota.Limit { return with.quota }, Ledger: quota.OpenLedger(opts.Dir+".quota", opts.FS, logger), Logger: logger,
	})
	n.slots = limit.NewSlots(concurrency)
	n.flusher = flush.New(flush.Options{
		Journal: n.journal, Engine: looking{engine}, Host: host, Health: n.health, Slots: n.slots, LateWindow: with.lateWindow, Timeout: requestTimeout, Quotas: n.quotas,
		FenceJournal: n.journal.Fence,
		OnFence: func(outcome string, requests int) {
			_, _ = fmt.Fprintf(up, "host %s: fence %s, %d requests", with.name, outcome, requests)
		},
		Linger:         func(string) time.Duration { return with.linger },
		BackoffInitial: with.backoffInitial, BackoffMax: with.backoffMax, Logger: logger,
		OnSettled: func(w journal.Write) { n.proxy.Settled(w) },
	})
	n.journal.Subscribe(func(c journal.Change) {
		n.cache.Changed(c.Namespace, c.Key)
		n.flusher.Changed(c)
		n.proxy.Changed(c)
	})
	reader := upstream.NewReader(upstream.ReaderOptions{
		Engine: engine, Health: n.health, Slots: n.slots, Patience: with.patience,
		BackoffInitial: with.backoffInitial, BackoffMax: with.backoffMax,
	})
	shown := metrics.New(metrics.Build{})
	served := proxy.Options{Forward: http.NotFoundHandler()}
	served.Journal, served.Cache, served.Upstream, served.Flusher, served.Logger = n.journal, n.cache, reader, n.flusher, logger
	served.Policy = func(string) cache.Policy { return with.policy }
	served.WriteThrough, served.ConfirmWithin = func(string) bool { return with.through }, requestTimeout
	served.UpstreamState, served.ReadsRefused, served.Metrics = n.upstreamState, reader.Refused, shown
	if n.sealed != nil {
		served.Check = n.sealed.Check
	}
	if n.proxy, err = proxy.New(served); err != nil {
		return nil, err
	}
	shown.Read(metrics.Sources{
		Status: n.proxy.Status, Journal: n.journal, Cache: n.cache, Quotas: n.quotas, Disk: n.proxy.DiskUsage, Coalesced: n.flusher.Saved,
	})
	return n, nil
}

func (n *node) upstreamState() api.UpstreamState {
	r := n.health.Report()
	return api.UpstreamState{
		State: string(r.State), Since: r.Since, Reason: r.Reason, LastSuccessAt: &r.LastSuccess,
		Concurrency: api.Concurrency(n.slots.Concurrency()),
	}
}

// start runs the background work.
func (n *node) start() {
	ctx, stop := context.WithCancel(context.Background())
	work := []func(context.Context) error{n.keepJournal, n.flusher.Run}
	if n.with.lists {
		work = append(work, n.proxy.Run)
	}
	n.stop, n.ended = stop, make(chan error, len(work))
	for _, run := range work {
		go func() { n.ended <- run(ctx) }()
	}
}

func (n *node) keepJournal(ctx context.Context) error {
	if err := n.journal.Run(ctx); err != nil {
		return err
	}
	return n.journal.Maintain(ctx)
}

// end stops everything without draining. After a crash nobody looks at the file system
// any more.
func (n *node) end() (err error) {
	n.stop()
	for range cap(n.ended) {
		err = errors.Join(err, <-n.ended)
	}
	n.proxy.Close()
	n.engine.Close()
	err = errors.Join(err, n.quotas.Close(), n.journal.Close())
	n.cache.Close()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// do makes one request of an agent: some of the simple ones by way of the fast path, as
// most are made in life.
func (n *node) do(method, path, body string, header ...string) *httptest.ResponseRecorder {
	if len(header) == 0 && crc32.ChecksumIEEE([]byte(path+body))%3 != 0 {
		if w := n.simple(method, path, body); w != nil {
			return w
		}
	}
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	n.proxy.ServeHTTP(w, r)
	return w
}

// simple returns nil for a request that the fast path leaves to the handler.
func (n *node) simple(method, path, body string) *httptest.ResponseRecorder {
	path, _, query := strings.Cut(path, "?")
	w := httptest.NewRecorder()
	text, later := n.proxy.AnswerSimple(&fastpath.Request{Method: method, Path: path, Query: query, JSON: true, Body: []byte(body)}, nil)
	if later != nil {
		later(context.Background(), w)
		return w
	}
	if text == nil {
		return nil
	}
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		panic(err)
	}
	maps.Copy(w.Header(), r.Header)
	w.WriteHeader(r.StatusCode)
	if _, err := w.Body.ReadFrom(r.Body); err != nil {
		panic(err)
	}
	return w
}
