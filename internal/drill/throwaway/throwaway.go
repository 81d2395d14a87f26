// Package throwaway drills its own daemon in a child process, with an upstream in this process.
package throwaway

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	childprocess "github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/internal/drill"
	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
)

const (
	// throwawayGap is the pause between two operations of a client.
	throwawayGap = 40 * time.Millisecond
	// throwawayEnd is the share of the time in which upstream recovers and everything settles.
	throwawayEnd = 3 // tenths
	// throwawayTimeout is the daemon's upstream.timeout. throwawayDelay limits the delay of requests
	// that upstream carries out late: at most twice as long. throwawayWindow is the daemon's
	// upstream.late_window, with some reserve for a busy machine.
	throwawayTimeout = time.Second
	throwawayDelay   = time.Second
	throwawayWindow  = 6 * time.Second
	// throwawaySettle limits the wait until upstream has everything. It only catches hangs.
	throwawaySettle = 2 * time.Minute
)

// throwaway is a daemon in a child process, and an upstream in this one, in a temporary directory. It
// implements [drill.Rig].
type throwaway struct {
	program  string
	dir      string
	memory   *selfhost.Server
	direct   *botwire.Client // reaches the memory without faults
	unserve  func() error    // stops the server behind direct
	front    *faulty.Server
	upstream string // front's address

	daemon  *childprocess.Process
	address atomic.Pointer[string] // where the daemon listens
}

// Run drills its own daemon, and leaves nothing behind.
func Run(ctx context.Context, seed uint64, lasts time.Duration, progress func(line string)) (audit *drill.Audit, err error) {
	t := &throwaway{}
	defer func() { err = errors.Join(err, t.close()) }()
	if t.program, err = os.Executable(); err != nil {
		return nil, err
	}
	if err := t.open(ctx, seed); err != nil {
		return nil, err
	}
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", *t.address.Load())
	}}
	defer transport.CloseIdleConnections()
	return drill.Run(ctx, drill.Options{
		Rig: t, Daemon: api.NewClient(api.Options{Transport: transport, FirstByte: drill.FirstByte}), Seed: seed, Lasts: lasts * (10 - throwawayEnd) / 10, Gap: throwawayGap,
		SettleWithin: throwawaySettle, Progress: progress,
	})
}

// open opens the upstream.
func (t *throwaway) open(ctx context.Context, seed uint64) (err error) {
	if t.dir, err = os.MkdirTemp("", "botwired-drill"); err != nil {
		return err
	}
	if t.memory, err = selfhost.Open(ctx, selfhost.Options{Path: filepath.Join(t.dir, "memory.db")}); err != nil {
		return err
	}
	dial, end := t.memory.ServeInProcess()
	t.unserve = end
	t.direct = botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: "http", Host: "localhost"}, Dial: dial, Timeout: time.Minute, Concurrency: 1, Headers: make(http.Header),
	})
	listen, at := faulty.Connections(ctx, faulty.OwnHost()+":0")
	t.front, err = faulty.New(faulty.Options{
		Service: t.memory.Handler(), Listen: listen, MaxDelay: throwawayDelay, Rand: rand.New(rand.NewPCG(seed, 1)),
	})
	t.upstream = at()
	return err
}

// start starts the daemon on its directory and a free port, with short timeouts to keep the drill
// short.
func (t *throwaway) start(ctx context.Context) (err error) {
	t.daemon, err = childprocess.Start(ctx, t.dir, t.program,
		"serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(t.dir, "data"), "--upstream-url", "http://"+t.upstream,
		"--upstream-timeout", throwawayTimeout.String(), "--upstream-late-window", throwawayWindow.String(),
		"--flush-linger", "20ms",
		"--cache-fresh-for", "500ms", "--cache-absent-for", "500ms", "--journal-disk-reserve", "16MiB",
	)
	if err == nil {
		address := t.daemon.Address()
		t.address.Store(&address)
	}
	return err
}

// Restart kills the daemon, and starts another one on its directory.
func (t *throwaway) Restart(ctx context.Context) error {
	if err := t.daemon.Kill(); err != nil {
		return err
	}
	return t.start(ctx)
}

// Be implements [drill.Rig].
func (t *throwaway) Be(m faulty.Mode) error { return t.front.Be(m) }

// Plant implements [drill.Rig].
func (t *throwaway) Plant(ctx context.Context, namespace, key, value string) error {
	_, err := t.direct.Swap(ctx, upstream.Proposal{ID: journal.ID{Namespace: namespace, Key: key}, Op: journal.Put, Value: value})
	return err
}

// Read implements [drill.Rig].
func (t *throwaway) Read(ctx context.Context, namespace, key string) (value string, found bool, err error) {
	v, err := t.direct.Get(ctx, journal.ID{Namespace: namespace, Key: key})
	return v.Value, err == nil && v.Present(), err
}

func (t *throwaway) close() (err error) {
	if t.daemon != nil {
		err = t.daemon.Kill()
	}
	if t.front != nil {
		err = errors.Join(err, t.front.Close())
	}
	if t.direct != nil {
		t.direct.Close()
	}
	if t.unserve != nil {
		err = errors.Join(err, t.unserve())
	}
	if t.memory != nil {
		err = errors.Join(err, t.memory.Close())
	}
	if t.dir != "" {
		err = errors.Join(err, os.RemoveAll(t.dir))
	}
	return err
}
