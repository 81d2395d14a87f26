package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/service"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

const (
	// statusPause is the time between two updates to the service manager.
	statusPause = time.Second
	// openingExtension is the extra time that each update asks for during the start, so that reading a
	// large journal or waiting for room on the disk is not a failed start.
	openingExtension = 30 * time.Second
	// stoppingMargin is extra time for the stop, to close the journal.
	stoppingMargin = 10 * time.Second
)

// unit reports the daemon's state to its service manager, such as systemd. It says when the daemon is
// ready, reloads or stops, shows its state in one sentence, and pings the watchdog while the daemon is
// alive. The daemon is alive if it answers livez through its own listener, and if no sync of its
// journal takes longer than half of the watchdog timeout. A full disk, an upstream that is down and a
// long start are no reason to restart it.
type unit struct {
	notifier *service.Notifier
	watchdog time.Duration
	logger   *slog.Logger
	sidecar  *sidecar
	crowded  func() bool // the server is at its connection limit
	client   *api.Client

	mu       sync.Mutex // guards the fields below, and the order of the messages
	ready    bool
	stopping bool
	shown    string // the sentence that the manager shows now
}

// newUnit returns a unit and a function that ends it. Without a service manager it does nothing.
func newUnit(ctx context.Context, in *inherited, d *sidecar, listener net.Listener, crowded func() bool) (u *unit, end func()) {
	u = &unit{notifier: in.notifier, watchdog: in.manager.Watchdog, logger: d.logger, sidecar: d, crowded: crowded}
	if !u.notifier.Active() {
		return u, func() {}
	}
	at := listener.Addr().String()
	if listener.Addr().Network() == "unix" {
		at = "unix://" + at
	}
	transport := api.Transport(at)
	transport.DisableKeepAlives = true
	u.client = api.NewClient(api.Options{Transport: transport, FirstByte: u.watchdog})
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { u.attend(living) })
	stopHearing := context.AfterFunc(ctx, u.stops)
	return u, func() {
		stopHearing()
		stop()
		wg.Wait()
	}
}

// attend keeps the service manager informed. It starts the watchdog pings when the daemon is ready: the
// manager expects none before.
func (u *unit) attend(ctx context.Context) {
	tick := time.NewTicker(statusPause)
	defer tick.Stop()
	var watching sync.WaitGroup
	defer watching.Wait()
	for watched := false; ; {
		if u.look() && !watched {
			watched = true
			watching.Go(func() {
				service.Watch(ctx, u.watchdog, u.alive, func() { u.notifier.Tell(service.Alive) }, func(err error) {
					u.logger.Error("the daemon may be stuck: if that lasts, it gives no sign of life, and the service manager restarts it", "error", err)
				})
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look tells the service manager what has changed, and reports whether the daemon is or was ready.
func (u *unit) look() (ready bool) {
	if !u.notifier.Active() {
		return false
	}
	sentence, isReady := u.state()
	u.mu.Lock()
	defer u.mu.Unlock()
	var news []string
	switch {
	case u.stopping:
		return u.ready
	case !u.ready && isReady:
		u.ready = true
		news = append(news, service.Ready)
	case !u.ready:
		news = append(news, service.Extend(openingExtension))
	}
	if sentence != u.shown {
		u.shown = sentence
		news = append(news, service.Status(sentence))
	}
	if len(news) > 0 {
		u.notifier.Tell(news...)
	}
	return u.ready
}

// state describes the daemon in one sentence, and reports whether it is ready, as readyz does. The
// sentence has no numbers, so that it does not change all the time.
func (u *unit) state() (sentence string, ready bool) {
	if !u.sidecar.opened.Load() {
		if o := u.sidecar.opening.Load(); o != nil && o.full.Load() != nil {
			return "Not ready: the disk is full, or this user's quota on it is used up. botwired goes on by itself when there is room.", false
		}
		return "Not ready: botwired is opening its journal.", false
	}
	switch err := u.sidecar.journal.Err(); {
	case errors.Is(err, journal.ErrFull):
		return "Writes are refused until the journal and its disk have room; reads and flushing go on.", false
	case err != nil:
		return "Writes are refused: the journal has failed.", false
	}
	switch upstream.State(u.sidecar.upstreamState().State) {
	case upstream.Down:
		return "Ready. Upstream does not answer: writes are kept on this disk.", true
	case upstream.Degraded:
		return "Ready. Upstream fails now and then.", true
	}
	return "Ready.", true
}

func (u *unit) reloads() (done func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ready || u.stopping {
		return func() {} // the manager waits for the start or the stop
	}
	u.notifier.Tell(service.Reloading())
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if !u.stopping {
			u.notifier.Tell(service.Ready, service.Status(u.shown))
		}
	}
}

func (u *unit) stops() {
	drain := u.sidecar.config.Load().Flush.DrainTimeout
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopping = true
	u.notifier.Tell(service.Stopping, service.Extend(drain+callersGrace+stoppingMargin),
		service.Status("Stopping: botwired carries pending writes upstream; the rest stays on this disk."))
}

// alive returns an error if the daemon is not alive: see unit. While the daemon stops, alive only
// checks the disk, because the stop has its own time limit.
func (u *unit) alive(ctx context.Context) error {
	if took := journal.SyncUnderWay(u.sidecar.journal); took > u.watchdog/2 { // guard 22.15
		return fmt.Errorf("the disk has not finished one write of the journal within %s", config.FormatDuration(took.Round(time.Second)))
	}
	u.mu.Lock()
	stopping := u.stopping
	u.mu.Unlock()
	if stopping {
		return nil
	}
	if _, err := u.client.Do(ctx, api.Request{Path: api.Surface("livez")}); err != nil && !excused(err, ctx.Err() != nil, u.crowded()) {
		return fmt.Errorf("the daemon does not answer itself: %w", err)
	}
	return nil
}

// excused reports whether a probe failed because of a shortage that restarting does not fix: of file
// descriptors, ports, kernel memory, or places among the callers.
func excused(err error, timedOut, crowded bool) bool {
	for _, scarce := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, scarce) {
			return true
		}
	}
	return crowded && (timedOut || errors.Is(err, syscall.EAGAIN)) // EAGAIN: the Unix socket's queue is full
}
