package proxy_test

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// fakeView is the view of a watch of the fake upstream. A test can break the watch, or let it lag.
type fakeView struct {
	seen   func(id journal.ID, own bool) // may be nil
	looked func()                        // called after each look at an entry; may be nil

	mu       sync.RWMutex
	held     map[string]map[string]fakeVersion
	sorted   map[string][]journal.Row // newest first; made on demand
	known    bool
	caughtUp bool
	since    time.Time
	asOf     time.Time // while it is not caught up, or if it is fixed
	fixed    bool
	missed   []fakeChange // while the watch is broken or lags
	lags     bool
}

type fakeVersion struct {
	row     journal.Row
	present bool
}

type fakeChange struct {
	id journal.ID
	fakeVersion
	own bool
}

func newFakeView() *fakeView {
	return &fakeView{
		held: make(map[string]map[string]fakeVersion), sorted: make(map[string][]journal.Row),
		known: true, caughtUp: true, since: time.Now(),
	}
}

func (v *fakeView) CaughtUp() (asOf, since time.Time, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.caughtUp && !v.fixed {
		return time.Now(), v.since, true
	}
	return v.asOf, v.since, v.caughtUp
}

func (v *fakeView) Entry(id journal.ID) (row journal.Row, present, known bool) {
	if v.looked != nil {
		defer v.looked()
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	version := v.held[id.Namespace][id.Key]
	return version.row, version.present, v.known
}

func (v *fakeView) Newest(namespace string, most int) (rows []journal.Row, total int, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	all, ok := v.sorted[namespace]
	if !ok {
		for _, version := range v.held[namespace] {
			if version.present {
				all = append(all, version.row)
			}
		}
		slices.SortFunc(all, func(a, b journal.Row) int {
			return cmp.Or(cmp.Compare(b.UpdatedAt, a.UpdatedAt), cmp.Compare(a.Key, b.Key))
		})
		v.sorted[namespace] = all
	}
	return slices.Clone(all[:min(most, len(all))]), len(all), v.known
}

// show shows a version at once if it is own or the watch works.
func (v *fakeView) show(c fakeChange) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !c.own && (v.lags || !v.caughtUp) {
		v.missed = append(v.missed, c)
		return
	}
	v.take(c)
}

func (v *fakeView) take(c fakeChange) {
	of := v.held[c.id.Namespace]
	if of == nil {
		of = make(map[string]fakeVersion)
		v.held[c.id.Namespace] = of
	}
	if past := of[c.id.Key]; past.row.UpdatedAt > c.row.UpdatedAt {
		return
	}
	of[c.id.Key] = c.fakeVersion
	delete(v.sorted, c.id.Namespace)
	if v.seen != nil {
		v.seen(c.id, c.own)
	}
}

// lag makes a caught-up watch report nothing until catchUp.
func (v *fakeView) lag() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lags, v.fixed, v.asOf = true, true, time.Now()
}

func (v *fakeView) breakOff() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.caughtUp, v.asOf = false, time.Now()
}

// catchUp makes the watch report all that it has missed, and catch up.
func (v *fakeView) catchUp() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.missed {
		v.take(c)
	}
	v.missed, v.lags, v.fixed = nil, false, false
	if !v.caughtUp {
		v.caughtUp, v.since = true, time.Now()
	}
}

// takeMissed makes the view show what it has missed of a namespace that upstream lists.
func (v *fakeView) takeMissed(namespace string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.missed = slices.DeleteFunc(v.missed, func(c fakeChange) bool {
		if c.id.Namespace == namespace {
			v.take(c)
		}
		return c.id.Namespace == namespace
	})
}

// tick returns the time of another host's write now: later than all before it.
func (u *fakeUpstream) tick() float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clock = math.Max(u.clock+1e-6, float64(time.Now().UnixMicro())/1e6)
	return u.clock
}

// swap carries out a write with its own time, as an engine with versions does. seq is 0 for another host's
// write.
func (u *fakeUpstream) swap(id journal.ID, op journal.Op, value string, at float64, seq uint64) {
	u.mu.Lock()
	u.clock = max(u.clock, at)
	c := fakeChange{id: id, own: seq != 0}
	c.row = journal.Row{Key: id.Key, UpdatedAt: at, Origin: journal.Origin{At: at, Seq: seq}}
	if op == journal.Put {
		c.present, c.row.ListBytes = true, wire.ListBytes(value)
		o := journal.Observation{Value: value, ListBytes: c.row.ListBytes, CreatedAt: at, UpdatedAt: at}
		if past, ok := u.entries[id]; ok {
			o.CreatedAt = past.CreatedAt
		}
		u.entries[id] = o
	} else {
		delete(u.entries, id)
	}
	u.mu.Unlock()
	u.view.show(c)
}

func (v *fakeView) State() api.WatchState {
	_, since, caughtUp := v.CaughtUp()
	now := api.WatchState{CaughtUp: caughtUp, Since: since, Entries: 2, Bytes: 300}
	if !caughtUp {
		now.Reason, now.Lost = "no connection", "the bucket was made anew"
	} else {
		now.Server = "nats://127.0.0.1:4222"
	}
	return now
}

func (v *fakeView) Accept(bool) error { return nil }

// newWatched returns a sidecar over an upstream that reports changes.
func newWatched(t *testing.T, adjust ...func(*journal.Options, *proxy.Options)) *sidecar {
	t.Helper()
	view := newFakeView()
	s := newSidecar(t, append(adjust, func(_ *journal.Options, o *proxy.Options) {
		o.View, o.Exact = view, true
		o.Watch = view
	})...)
	s.upstream.view, view.seen = view, s.server.VersionSeen
	return s
}

// watching runs a test in a bubble over an upstream that reports changes.
func watching(t *testing.T, test func(t *testing.T, s *sidecar, view *fakeView)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newWatched(t)
		test(t, s, s.upstream.view)
	})
}
