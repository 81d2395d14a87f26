package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/sse"
)

const (
	// maxEvent bounds an event of the daemon, in bytes.
	maxEvent = 64 << 10
	// followTime is how long a client that wants to follow a resource waits for the stream.
	followTime = 10 * time.Second
	// silence is how long the stream may say nothing: the daemon sends a heartbeat every 15 s.
	silence = time.Minute
	// againFirst and againLast are the pauses before the stream is opened again.
	againFirst = 100 * time.Millisecond
	againLast  = 5 * time.Second
)

// watcher follows the daemon's events while anybody wants to know of an entry, and calls those who
// do. They may be called once too often, and never too rarely: after a gap in the stream, all are.
type watcher struct {
	daemon *daemon
	logger *slog.Logger

	mu       sync.Mutex // guards what is below; nothing waits while it is held
	wanted   map[entryID]map[*interest]struct{}
	cancel   context.CancelFunc // ends the stream; nil while there is none
	ready    chan struct{}      // is closed when the stream has begun
	closed   bool
	running  sync.WaitGroup
	lastMade map[entryID]uint64 // the newest write that was told of as pending
}

// interest is one who wants to know of an entry.
type interest struct {
	id      entryID
	changed func() // may take its time: one that does keeps no other waiting

	telling, again bool // guarded by the watcher's mu: changed runs, and has to run once more
}

func newWatcher(d *daemon, logger *slog.Logger) *watcher {
	return &watcher{
		daemon: d, logger: logger,
		wanted: make(map[entryID]map[*interest]struct{}), lastMade: make(map[entryID]uint64),
	}
}

var (
	errClosed    = errors.New("botwired is stopping: follow the resource again when it is back")
	errNotFollow = errors.New("the botwired daemon cannot be followed now: try again")
)

// follow returns when every later change of the entry calls changed. Several may wait for one
// interest: it stays until forget, whatever the error.
func (w *watcher) follow(ctx context.Context, of *interest) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosed
	}
	if w.wanted[of.id] == nil {
		w.wanted[of.id] = make(map[*interest]struct{})
	}
	w.wanted[of.id][of] = struct{}{}
	if w.cancel == nil {
		w.begin()
	}
	ready := w.ready
	w.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, followTime)
	defer cancel()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return errNotFollow
	}
}

// begin opens the stream. It is called with mu held.
func (w *watcher) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	w.cancel, w.ready = cancel, ready
	begun := sync.OnceFunc(func() { close(ready) })
	w.running.Go(func() { w.run(ctx, begun) })
}

// forget ends an interest, and the stream with the last one.
func (w *watcher) forget(of *interest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.wanted[of.id], of)
	if len(w.wanted[of.id]) > 0 {
		return
	}
	delete(w.wanted, of.id)
	delete(w.lastMade, of.id)
	if len(w.wanted) == 0 {
		w.end()
	}
}

func (w *watcher) end() {
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// stop ends the stream for good.
func (w *watcher) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.end()
}

// run reads the stream until ctx ends, and opens it again where it has ended.
func (w *watcher) run(ctx context.Context, begun func()) {
	last, pause := "", againFirst
	for ctx.Err() == nil {
		heard, err := w.read(ctx, &last, begun)
		if ctx.Err() != nil {
			return
		}
		w.logger.Debug("the stream of events has ended, and is opened again", "error", err)
		if heard {
			pause = againFirst
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, againLast)
	}
}

// read reads one stream from the event after last on. It reports whether the daemon has answered.
func (w *watcher) read(ctx context.Context, last *string, begun func()) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	deaf := time.AfterFunc(silence, cancel)
	defer deaf.Stop()
	header := http.Header{}
	if *last != "" {
		header.Set("Last-Event-Id", *last)
	}
	resp, err := w.daemon.send(ctx, request{path: surface("events"), header: header})
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, newRefusal(resp, nil)
	}
	events := sse.NewReader(resp.Body, maxEvent)
	events.Heard = func() {
		deaf.Reset(silence)
		if events.LastID != "" { // from here on, nothing is missed
			*last = events.LastID
			begun()
		}
	}
	events.LastID = *last
	for {
		e, err := events.Next()
		if err != nil {
			return true, err
		}
		*last = events.LastID
		begun()
		w.take(e)
	}
}

// writeEvent is what the daemon's events say of a write.
type writeEvent struct {
	Seq       uint64 `json:"seq"`
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	By        uint64 `json:"by"` // the write of this daemon's that has superseded it, which was told of before
}

// changesNothing reports whether a reader sees after an event what it saw before, given the newest
// write that was told of as pending.
func (of *writeEvent) changesNothing(name string, lastMade uint64) bool {
	return name == "sent" || name == "settled" && of.Seq <= lastMade || name == "superseded" && of.By != 0
}

// take calls those whom an event is about.
func (w *watcher) take(e sse.Event) {
	if e.Name == "reset" {
		w.call(w.everybody())
		return
	}
	var of writeEvent
	if json.Unmarshal(e.Data, &of) != nil || of.Key == "" { // it is about upstream
		return
	}
	id := entryID{of.Namespace, of.Key}
	w.mu.Lock()
	if len(w.wanted[id]) == 0 || of.changesNothing(e.Name, w.lastMade[id]) {
		w.mu.Unlock()
		return
	}
	if e.Name == "pending" {
		w.lastMade[id] = max(w.lastMade[id], of.Seq)
	}
	called := slices.Collect(maps.Keys(w.wanted[id]))
	w.mu.Unlock()
	w.call(called)
}

func (w *watcher) everybody() (all []*interest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.wanted {
		all = slices.AppendSeq(all, maps.Keys(of))
	}
	return all
}

// call has those called who want to know. It is called by run alone.
func (w *watcher) call(them []*interest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range them {
		if one.telling {
			one.again = true
			continue
		}
		one.telling = true
		w.running.Go(func() { w.tell(one) })
	}
}

// tell calls one, and again if there was another change meanwhile.
func (w *watcher) tell(one *interest) {
	for again := true; again; {
		one.changed()
		w.mu.Lock()
		again = one.again
		one.again, one.telling = false, again
		w.mu.Unlock()
	}
}
