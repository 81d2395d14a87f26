// Package throwaway drills its own daemon in a child process, with an upstream in this process.
package throwaway

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/internal/drill"
	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/internal/selfhost"
)

const (
	// gap is the pause between two operations of a client.
	gap = 40 * time.Millisecond
	// phasesPercent is the share of the time for the phases. In the rest, upstream recovers.
	phasesPercent = 70
	// timeout is the daemon's upstream.timeout. maxDelay limits the delay of requests that upstream
	// carries out late: at most twice as long. lateWindow is the daemon's upstream.late_window, with some
	// reserve for a busy machine.
	timeout    = time.Second
	maxDelay   = time.Second
	lateWindow = 6 * time.Second
)

// rig is a daemon in a child process, and an upstream in this one, in a temporary directory.
type rig struct {
	*faulty.Server // the memory with faults, at the address upstream
	upstream       string
	dir            string
	direct         *api.Client // reaches the memory without faults
	daemon         *child.Process
	address        atomic.Pointer[string] // where the daemon listens
	closers        []func() error         // in the order of opening
}

// Run drills its own daemon, and leaves nothing behind.
func Run(ctx context.Context, seed uint64, lasts time.Duration, progress func(line string)) (audit *drill.Audit, err error) {
	r := &rig{}
	defer func() {
		for i := range r.closers {
			err = errors.Join(err, r.closers[len(r.closers)-1-i]())
		}
	}()
	if err := r.open(ctx, seed); err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", *r.address.Load())
	}}
	defer transport.CloseIdleConnections()
	return drill.Run(ctx, drill.Options{
		Rig: r, Daemon: transport, Seed: seed, Lasts: lasts * phasesPercent / 100, Gap: gap, Progress: progress,
	})
}

// open opens the upstream and starts the daemon.
func (r *rig) open(ctx context.Context, seed uint64) (err error) {
	if r.dir, err = os.MkdirTemp("", "botwired-drill"); err != nil {
		return err
	}
	r.closers = append(r.closers, func() error { return os.RemoveAll(r.dir) })
	memory, err := selfhost.Open(ctx, selfhost.Options{Path: filepath.Join(r.dir, "memory.db")})
	if err != nil {
		return err
	}
	dial, end := memory.ServeInProcess()
	r.closers = append(r.closers, memory.Close, end)
	r.direct = api.NewClient(api.Options{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}})
	listen, at := faulty.Connections(ctx, faulty.OwnHost()+":0")
	r.Server, err = faulty.New(faulty.Options{
		Service: memory.Handler(), Listen: listen, MaxDelay: maxDelay, Rand: rand.New(rand.NewPCG(seed, 1)),
	})
	if err != nil {
		return err
	}
	r.upstream = at()
	r.closers = append(r.closers, r.Close)
	return r.start(ctx)
}

// start starts the daemon on its directory and a free port, with short timeouts to keep the drill
// short.
func (r *rig) start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	daemon, err := child.Start(ctx, r.dir, program,
		"serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(r.dir, "data"), "--upstream-url", "http://"+r.upstream,
		"--upstream-timeout", timeout.String(), "--upstream-late-window", lateWindow.String(),
		"--flush-linger", "20ms",
		"--cache-fresh-for", "500ms", "--cache-absent-for", "500ms", "--journal-disk-reserve", "16MiB",
	)
	if err != nil {
		return err
	}
	address := daemon.Address()
	r.address.Store(&address)
	r.daemon = daemon
	r.closers = append(r.closers, daemon.Kill)
	return nil
}

// Restart kills the daemon, and starts another one on its directory.
func (r *rig) Restart(ctx context.Context) error {
	if err := r.daemon.Kill(); err != nil {
		return err
	}
	return r.start(ctx)
}

// Plant implements [drill.Rig].
func (r *rig) Plant(ctx context.Context, namespace, key, value string) error {
	_, err := r.direct.Do(ctx, api.Request{Method: http.MethodPut, Path: api.Memory(namespace, key), Body: api.ValueBody(value)})
	return err
}

// Read implements [drill.Rig].
func (r *rig) Read(ctx context.Context, namespace, key string) (value string, found bool, err error) {
	v, err := r.direct.Get(ctx, namespace, key)
	if api.IsRefused(err, http.StatusNotFound) {
		return "", false, nil
	}
	return v.Value, err == nil, err
}
