package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/guard"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/wire"
)

const (
	// openingPatience is how long callers wait for the journal to open. After that they get an answer.
	openingPatience = 5 * time.Second
	// roomPause is the time between two checks for room on the disk.
	roomPause = 500 * time.Millisecond
)

// opening answers callers while the journal cannot be opened, or takes long to open.
type opening struct {
	logger *slog.Logger
	dir    string // the journal's
	serve  func() // starts serving, once
	full   atomic.Pointer[string]
}

// ServeHTTP answers livez, and refuses all else with 503.
func (o *opening) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/_botwired/livez" {
		(&wire.Refusal{Status: http.StatusOK, Body: []byte(`{"status":"alive"}`)}).Write(w)
		return
	}
	detail := api.NotReady + "botwired is opening its journal"
	if why := o.full.Load(); why != nil {
		detail = api.NotReady + *why + "; botwired goes on by itself when there is room, and has kept every acknowledged write"
	}
	wire.Unavailable(time.Second, detail).Write(w)
}

// awaitRoom waits a moment for room on the disk, or until ctx ends. The journal calls it repeatedly
// while it has too little room to open, and with 0 once it has enough.
func (o *opening) awaitRoom(ctx context.Context, needed int64) error {
	if needed == 0 {
		if o.full.Swap(nil) != nil {
			o.logger.Info("there is room again: botwired opens its journal", "journal", o.dir)
		}
		return nil
	}
	why := fmt.Sprintf("disk full: %d MiB needed in %s, on the disk and in this user's quota", (needed+1<<20-1)>>20, o.dir)
	if o.full.Swap(&why) == nil {
		o.logger.Error("the disk is full, or this user's quota on it is used up: the journal cannot be opened until there is room; nothing is lost, and botwired goes on by itself: free some room",
			"needed", fmt.Sprintf("%d MiB", (needed+1<<20-1)>>20), "journal", o.dir)
		o.serve() // guard 3.27
	}
	return tasks.Sleep(ctx, roomPause) // guard 3.28
}

// openOrAnswer opens the daemon's parts. If the disk has no room or opening takes long, it calls serve,
// which answers callers meanwhile. If ctx ends, waiting for room ends at once; any other opening may
// take flush.drain_timeout longer.
func (d *sidecar) openOrAnswer(ctx context.Context, c *config.Config, fatal func(error), serve func()) error {
	token, err := c.Token()
	if err != nil {
		return err
	}
	o := &opening{logger: d.logger, dir: filepath.Join(c.DataDir, journalDir), serve: sync.OnceFunc(serve)}
	d.opening.Store(o)
	d.door.replace(guard.New(guardOptions(c, token), d.prover.Handler(token, o)))
	opened := make(chan error, 1)
	go func() {
		opened <- d.open(ctx, c, fatal, func(needed int64) error { return o.awaitRoom(ctx, needed) })
	}()
	patience, stopped, tooLate := time.After(openingPatience), ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case err := <-opened:
			d.opened.Store(err == nil)
			return err
		case <-patience:
			o.serve()
		case <-stopped:
			stopped, tooLate = nil, time.After(c.Flush.DrainTimeout)
		case <-tooLate:
			return context.Canceled // the process ends, and leaves the journal as a crash would
		}
	}
}

// stoppedEarly returns the error of a daemon that did not open. A stop by a signal is no error.
func (d *sidecar) stoppedEarly(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	d.logger.Info("stopped before the journal was open: it keeps every acknowledged write")
	return nil
}

// answerSimple leaves requests to the handler until the daemon is open.
func (d *sidecar) answerSimple(r *fastpath.Request, dst []byte) ([]byte, fastpath.Later) {
	if !d.opened.Load() {
		return nil, nil
	}
	return d.proxy.AnswerSimple(r, dst)
}
