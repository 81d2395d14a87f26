package proxy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// begin starts or joins a request upstream. Patient and impatient readers do not
// share one: the latter would have to wait out an outage. Should two run at a time,
// the journal drops the answer that comes second.
//
// A request can be joined until its answer is about to be taken: whoever comes later
// may have seen a newer write, settled by now, and must not be given an older answer
// (contract 5).
func (s *Server) begin(from origin, patient bool) <-chan singleflight.Result {
	name := flightName(from, patient)
	return s.flights.DoChan(name, func() (item any, err error) {
		if !s.enter() {
			return nil, context.Canceled
		}
		defer s.background.Done()
		now := time.Now()
		s.started.Store(name, now)
		defer s.started.CompareAndDelete(name, now)
		defer s.survive(&err)
		return from.load(s.detached(), patient, func() { s.flights.Forget(name) })
	})
}

func flightName(from origin, patient bool) string {
	if patient {
		return from.flight() + " patient"
	}
	return from.flight()
}

// underWayFor is how long the impatient request for the same thing has been under way
// already; 0 if there is none.
func (s *Server) underWayFor(from origin) time.Duration {
	if at, ok := s.started.Load(flightName(from, false)); ok {
		return time.Since(at.(time.Time))
	}
	return 0
}

// errPanicked stands for a panic in a request upstream, which would end the process.
var errPanicked = errors.New("panic while upstream was asked")

// survive makes an error of a panic. What was panicked with may hold a value, so it is
// logged only if the runtime made it.
func (s *Server) survive(err *error) {
	p := recover()
	if p == nil {
		return
	}
	what := fmt.Sprintf("%T", p)
	if fault, ok := p.(runtime.Error); ok {
		what = fault.Error()
	}
	s.opts.Logger.Error("panic while upstream was asked", "panic", what, "stack", string(debug.Stack()))
	*err = errPanicked
}

// revalidate asks upstream in the background; an answer that fails to come is no
// loss yet.
func (s *Server) revalidate(from origin) {
	s.begin(from, false)
}

// entrySource reads one entry.
type entrySource struct {
	s  *Server
	id journal.ID
}

func (e entrySource) flight() string { return e.id.String() }

func (e entrySource) local() (*cache.Item, error) {
	state, err := e.s.opts.Journal.Lookup(e.id)
	if err != nil {
		return nil, err
	}
	return entryItem(e.id, state), nil
}

// entryItem is the answer that a state amounts to; nil if it is Unknown.
func entryItem(id journal.ID, state journal.State) *cache.Item {
	switch state.Kind {
	case journal.Unknown:
		return nil
	case journal.Gone:
		return &cache.Item{}
	}
	entry := wire.Entry{
		Namespace: id.Namespace, Key: id.Key, Value: state.Value,
		CreatedAt: state.CreatedAt, UpdatedAt: state.UpdatedAt,
	}
	return &cache.Item{Body: entry.AppendJSON(nil), ConfirmedAt: state.ConfirmedAt}
}

// load is guarded twice. The entry is watched from before upstream is asked, and the
// journal drops the answer if the entry was written, or settled, after upstream may
// have made it. And what is cached is made from the state after the fill, under a
// generation from after the fill.
func (e entrySource) load(ctx context.Context, patient bool, seal func()) (*cache.Item, error) {
	s := e.s
	watch := s.opts.Cache.Watch(entryKey(e.id))
	defer watch.Stop()
	state, err := s.opts.Journal.Lookup(e.id)
	if err != nil {
		return nil, err
	}
	if state.Seq != 0 {
		return nil, errOvertaken // written since the reader looked
	}
	seen, err := s.opts.Upstream.Get(ctx, e.id, patient)
	if err != nil {
		return nil, err
	}
	seal()
	state, err = s.opts.Journal.Fill(e.id, seen, func() bool { return !watch.Changed() })
	if errors.Is(err, journal.ErrChanged) {
		return nil, errOvertaken
	}
	if err != nil {
		return nil, err
	}
	if seen != nil {
		return entryItem(e.id, state), nil
	}
	return e.rememberAbsence()
}

// rememberAbsence caches that upstream does not hold the entry, unless something newer
// is known here: the journal has no record of absences.
func (e entrySource) rememberAbsence() (*cache.Item, error) {
	s, key := e.s, entryKey(e.id)
	absent := cache.Item{ConfirmedAt: time.Now()}
	generation := s.opts.Cache.Generation(key)
	state, err := s.opts.Journal.Lookup(e.id)
	if err != nil {
		return nil, err
	}
	if state.Kind == journal.Unknown {
		return s.opts.Cache.Put(key, generation, absent), nil
	}
	return &absent, nil
}

// Settled is to be told of writes that upstream has confirmed. A delete leaves an
// absence that upstream need not be asked about (contract 9).
func (s *Server) Settled(w journal.Write) {
	if w.Op != journal.Delete || !s.enter() {
		return
	}
	defer s.background.Done()
	// What cannot be looked up is not remembered, and asked for when it is wanted.
	_, _ = entrySource{s, w.ID}.rememberAbsence()
}
