package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Lane is a kind of request that waits for a slot.
type Lane uint8

// The lanes. Refreshes use the reads' part, after the reads that a caller waits for.
const (
	Writes Lane = iota
	Reads
	Refreshes
	lanes
)

func (l Lane) part() int { return int(min(l, Reads)) }

const (
	// One in keptShare of the slots is reserved for writes, and one for reads, needed or not. With
	// fewer slots than keptShare, none is reserved.
	keptShare = 8
	quarters  = 4
	// The reads of one namespace may hold readsOfOne quarters of the slots that other namespaces' reads
	// leave, because a request that hangs cannot be taken back. The flusher divides the writes' part.
	readsOfOne = 3
	// refreshesWaiting bounds the refreshes that wait. No caller waits for them, and the next read of
	// the entry asks for another.
	refreshesWaiting = 1024
)

// ErrBusy says that too many refreshes are waiting.
var ErrBusy = errors.New("too many requests are waiting to be sent upstream")

// Slots bound the requests in flight, reads and writes together. The window reduces their number while
// upstream cannot take as many. If both reads and writes are waiting, each gets half; otherwise one may
// use the slots that the other leaves, except an eighth. The reads of one namespace cannot hold all the
// reads' slots. A namespace that holds no slot for a write need not wait for others that hold several.
// Its methods may be called concurrently.
type Slots struct {
	mu      sync.Mutex
	window  *window
	used    [2]int            // by part
	held    [2]map[string]int // by part, the number of slots that each namespace holds
	waiting [lanes][]*Slot
	turn    int // the part to serve first next time
}

// Slot is a request that waits for a slot or holds one.
type Slot struct {
	slots   *Slots
	lane    Lane
	granted chan struct{} // closed when the request gets its slot
	request
}

// NewSlots returns most slots, at least one.
func NewSlots(most int) *Slots {
	return &Slots{window: newWindow(most), held: [2]map[string]int{{}, {}}}
}

// Concurrency returns how many requests may be in flight.
func (s *Slots) Concurrency() Concurrency {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.window.concurrency(time.Now())
}

// Acquire waits for a slot. The caller releases it once. Errors: ctx's and [ErrBusy].
func (s *Slots) Acquire(ctx context.Context, l Lane, namespace string) (*Slot, error) {
	r := &Slot{slots: s, lane: l, granted: make(chan struct{}), request: request{origin: origin{l.part(), namespace}}}
	s.mu.Lock()
	if l == Refreshes && len(s.waiting[l]) >= refreshesWaiting {
		s.mu.Unlock()
		return nil, ErrBusy
	}
	s.waiting[l] = append(s.waiting[l], r)
	s.grant()
	s.mu.Unlock()
	select {
	case <-r.granted:
	case <-ctx.Done():
		r.leave()
		return nil, ctx.Err()
	}
	return r, nil
}

// leave stops waiting, or releases the slot if it was granted meanwhile.
func (r *Slot) leave() {
	s := r.slots
	s.mu.Lock()
	i := slices.Index(s.waiting[r.lane], r)
	if i >= 0 {
		s.waiting[r.lane] = slices.Delete(s.waiting[r.lane], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		r.Release()
	}
}

// Release gives the slot back, to the next request that waits. Call it once.
func (r *Slot) Release() {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	r.slots.use(r, -1)
	r.slots.grant()
}

// Begin records that a request begins in the slot, the first or a later one.
func (r *Slot) Begin() {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	r.note()
}

// note records that a request begins. The caller holds mu.
func (r *Slot) note() { r.sent, r.failing = time.Now(), r.slots.window.failing[r.origin] }

// Ended records how the slot's request ended: whether upstream pushed back, and whether upstream itself
// answered. Do not call Ended for a request that was not made, or that its caller gave up.
func (r *Slot) Ended(pushedBack, answered bool) {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	r.slots.window.takeIn(&r.request, pushedBack, answered, time.Now())
}

// use counts a slot that a request got or gave back. The caller holds mu.
func (s *Slots) use(r *Slot, change int) {
	part := r.lane.part()
	s.used[part] += change
	if s.held[part][r.namespace] += change; s.held[part][r.namespace] == 0 {
		delete(s.held[part], r.namespace)
	}
}

// grant gives free slots to waiting requests. The caller holds mu.
func (s *Slots) grant() {
	for r := s.take(s.turn, 1-s.turn); r != nil; r = s.take(s.turn, 1-s.turn) {
		s.use(r, +1)
		r.note()
		close(r.granted)
		s.turn = 1 - r.lane.part()
	}
}

// take removes and returns the first waiting request that may have a slot, trying the parts in order;
// nil if there is none.
func (s *Slots) take(parts ...int) *Slot {
	for _, part := range parts {
		may := s.hasPart
		if !s.mayTake(part) {
			if part != Writes.part() || !s.crowded() { // guard 16.13
				continue
			}
			may = s.hasNone
		}
		for l := range lanes {
			if l.part() != part {
				continue
			}
			if i := slices.IndexFunc(s.waiting[l], may); i >= 0 {
				r := s.waiting[l][i]
				s.waiting[l] = slices.Delete(s.waiting[l], i, i+1)
				return r
			}
		}
	}
	return nil
}

// mayTake reports whether a part may take one more slot.
func (s *Slots) mayTake(part int) bool {
	used, total := s.used[part], s.window.size
	switch {
	case used+s.used[1-part] >= total, used >= s.most(): // guard 16.7
		return false
	case s.wanted(1 - part): // guard 16.14
		return used < (total+1)/2
	}
	return true
}

// most returns how many slots a part may have.
func (s *Slots) most() int { return MostOf(s.window.size) }

// MostOf returns how many of total slots the reads, or the writes, may have.
func MostOf(total int) int { return total - total/keptShare }

// crowded reports whether the writes have all the slots that they may have, and some namespaces hold
// several: their requests may hang. A write of a namespace that holds none may then take a slot
// reserved for reads, unless it is the last one.
func (s *Slots) crowded() bool {
	writes, total := s.used[Writes.part()], s.window.size
	return writes >= s.most() && writes+1 < total && writes+s.used[Reads.part()] < total &&
		writes > len(s.held[Writes.part()])
}

func (s *Slots) hasNone(r *Slot) bool { return s.held[r.lane.part()][r.namespace] == 0 }

// wanted reports whether requests of a part are waiting.
func (s *Slots) wanted(part int) bool {
	for l := range lanes {
		if l.part() == part && len(s.waiting[l]) > 0 {
			return true
		}
	}
	return false
}

// hasPart reports whether a request's namespace may hold one more slot.
func (s *Slots) hasPart(r *Slot) bool {
	part := r.lane.part()
	own := s.held[part][r.namespace]
	if r.lane == Writes || own == 0 {
		return true
	}
	others := s.used[part] - own
	return own < (s.most()-others)*readsOfOne/quarters // guard 16.15
}
