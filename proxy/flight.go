package proxy

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// begin starts or joins a request upstream. Patient and impatient readers do not
// share one: the latter would have to wait out an outage. Should two run at a time,
// the journal drops the answer that comes second.
func (s *Server) begin(from origin, patient bool) <-chan singleflight.Result {
	name := from.flight()
	if patient {
		name += " patient"
	}
	return s.flights.DoChan(name, func() (any, error) {
		if !s.enter() {
			return nil, context.Canceled
		}
		defer s.background.Done()
		return from.load(s.detached(), patient, func() { s.flights.Forget(name) })
	})
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

// load is guarded twice. The generation is taken before upstream is asked, and the
// journal drops the answer if it has advanced: the entry was written, or settled,
// after upstream may have made the answer. And what is cached is made from the state
// after the fill, under a generation from after the fill.
//
// Nobody joins from the fill on: a write may be acknowledged, and even settled, after
// the fill and before the flight is over, and a reader that begins after it must not
// be answered from before it (contracts 6 and 7).
func (e entrySource) load(ctx context.Context, patient bool, seal func()) (*cache.Item, error) {
	s, key := e.s, entryKey(e.id)
	generation := s.opts.Cache.Generation(key)
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
	state, err = s.opts.Journal.Fill(e.id, seen, func() bool { return s.opts.Cache.Current(key, generation) })
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

// rememberAbsence caches that upstream does not hold the entry: the journal has no
// record of that.
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
