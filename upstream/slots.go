package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/botwired/botwired/journal"
)

// lane is a kind of request in line for a slot.
type lane uint8

// The lanes. Refreshes take the part of the reads, after those that a caller waits for.
const (
	writeLane lane = iota
	readLane
	refreshLane
	lanes
)

// part is whose part of the slots a lane takes.
func (l lane) part() int { return int(min(l, readLane)) }

const (
	// keptShare is the share of the slots that are kept from the reads for writes, and from
	// the writes for reads, whether or not they are needed. With less than that many slots
	// none is kept.
	keptShare = 8
	// readsOfOne is how much the reads of one namespace may hold, in quarters, of the slots
	// that the reads of other namespaces leave: a request that hangs cannot be taken back.
	// The flusher shares out the writes' part.
	readsOfOne = 3
	// refreshesWaiting bounds the refreshes in line. Nobody waits for them, and the next read
	// of the entry asks for another.
	refreshesWaiting = 1024
)

// errBusy says that so many requests are in line that one more makes no sense.
var errBusy = errors.New("too many requests are waiting to be sent upstream")

// Slots bound the requests under way upstream, of reads and writes together. While both
// want more than there are, each has half of them; otherwise one may use the slots that the
// other leaves, but for an eighth. No namespace's reads hold all that the reads may have.
// Its methods may be called concurrently.
type Slots struct {
	total int

	mu      sync.Mutex
	used    [2]int         // by part
	reads   map[string]int // slots used by the reads of a namespace
	waiting [lanes][]*waiter
	turn    int // the part that is served first next time
}

// waiter is a request in line.
type waiter struct {
	lane      lane
	namespace string        // of a read
	granted   chan struct{} // closed when it has its slot
}

// NewSlots returns a number of slots, at least one.
func NewSlots(total int) *Slots { return &Slots{total: total, reads: make(map[string]int)} }

// ForWrites returns an engine all of whose requests count as writes.
func (s *Slots) ForWrites(engine Engine) Engine { return &slotted{engine, s} }

// acquire waits for a slot; a write names no namespace. release gives it back; the caller
// calls it once. The errors are ctx's and errBusy.
func (s *Slots) acquire(ctx context.Context, l lane, namespace string) (release func(), err error) {
	w := &waiter{l, namespace, make(chan struct{})}
	s.mu.Lock()
	if l == refreshLane && len(s.waiting[l]) >= refreshesWaiting {
		s.mu.Unlock()
		return nil, errBusy
	}
	s.waiting[l] = append(s.waiting[l], w)
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.granted:
	case <-ctx.Done():
		s.leave(w)
		return nil, ctx.Err()
	}
	return func() { s.release(w) }, nil
}

// leave takes a request out of line, or gives back the slot that it has got meanwhile.
func (s *Slots) leave(w *waiter) {
	s.mu.Lock()
	i := slices.Index(s.waiting[w.lane], w)
	if i >= 0 {
		s.waiting[w.lane] = slices.Delete(s.waiting[w.lane], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		s.release(w)
	}
}

func (s *Slots) release(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(w, -1)
	s.grant()
}

// use counts a slot that a request has got, or given back. The caller holds mu.
func (s *Slots) use(w *waiter, change int) {
	s.used[w.lane.part()] += change
	if w.lane == writeLane {
		return
	}
	if s.reads[w.namespace] += change; s.reads[w.namespace] == 0 {
		delete(s.reads, w.namespace)
	}
}

// grant gives free slots to those in line. The caller holds mu.
func (s *Slots) grant() {
	for w := s.take(s.turn, 1-s.turn); w != nil; w = s.take(s.turn, 1-s.turn) {
		close(w.granted)
		s.use(w, +1)
		s.turn = 1 - w.lane.part()
	}
}

// take takes the first request out of line that may have a slot, one part before the
// other; nil if there is none.
func (s *Slots) take(parts ...int) *waiter {
	for _, part := range parts {
		if !s.mayTake(part) {
			continue
		}
		for l := range lanes {
			if l.part() != part {
				continue
			}
			if i := slices.IndexFunc(s.waiting[l], s.hasPart); i >= 0 {
				w := s.waiting[l][i]
				s.waiting[l] = slices.Delete(s.waiting[l], i, i+1)
				return w
			}
		}
	}
	return nil
}

// mayTake reports whether a part may take one more slot.
func (s *Slots) mayTake(part int) bool {
	used := s.used[part]
	switch {
	case used+s.used[1-part] >= s.total, used >= s.most():
		return false
	case s.wanted(1 - part):
		return used < (s.total+1)/2
	}
	return true
}

// most is how many slots a part may have at most.
func (s *Slots) most() int { return s.total - s.total/keptShare }

// wanted reports whether a part has requests in line.
func (s *Slots) wanted(part int) bool {
	for l := range lanes {
		if l.part() == part && len(s.waiting[l]) > 0 {
			return true
		}
	}
	return false
}

// hasPart reports whether a request's namespace may hold one more slot.
func (s *Slots) hasPart(w *waiter) bool {
	own := s.reads[w.namespace]
	if w.lane == writeLane || own == 0 {
		return true
	}
	others := s.used[readLane.part()] - own
	return own < (s.most()-others)*readsOfOne/quarters
}

// slotted is an engine whose requests wait for a slot.
type slotted struct {
	engine Engine
	slots  *Slots
}

// do makes a request. A request that gets no slot before ctx ends is not sent.
func (s *slotted) do(ctx context.Context, request func() error) error {
	release, err := s.slots.acquire(ctx, writeLane, "")
	if err != nil {
		return &Error{Verdict: Unsent, Reason: err.Error()}
	}
	defer release()
	return request()
}

// Get implements [Engine].
func (s *slotted) Get(ctx context.Context, id journal.ID) (o *journal.Observation, err error) {
	err = s.do(ctx, func() error {
		o, err = s.engine.Get(ctx, id)
		return err
	})
	return o, err
}

// List implements [Engine].
func (s *slotted) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	err = s.do(ctx, func() error {
		rows, complete, err = s.engine.List(ctx, namespace)
		return err
	})
	return rows, complete, err
}

// Put implements [Engine].
func (s *slotted) Put(ctx context.Context, id journal.ID, value string) error {
	return s.do(ctx, func() error { return s.engine.Put(ctx, id, value) })
}

// Delete implements [Engine].
func (s *slotted) Delete(ctx context.Context, id journal.ID) error {
	return s.do(ctx, func() error { return s.engine.Delete(ctx, id) })
}
