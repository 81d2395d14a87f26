package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Lane is a kind of request in line for a slot.
type Lane uint8

// The lanes. Refreshes share the part of the reads, after those that a caller waits for.
const (
	Writes Lane = iota
	Reads
	Refreshes
	lanes
)

func (l Lane) part() int { return int(min(l, Reads)) }

const (
	// keptShare is the share of the slots that are kept from the reads for writes, and from
	// the writes for reads, whether or not they are needed. With less than that many slots
	// none is kept.
	keptShare = 8
	quarters  = 4
	// readsOfOne is how much the reads of one namespace may hold, in quarters, of the slots
	// that the reads of other namespaces leave: a request that hangs cannot be taken back.
	// The flusher shares out the writes' part.
	readsOfOne = 3
	// refreshesWaiting bounds the refreshes in line. Nobody waits for them, and the next read
	// of the entry asks for another.
	refreshesWaiting = 1024
)

// ErrBusy says that too many refreshes are in line already.
var ErrBusy = errors.New("too many requests are waiting to be sent upstream")

// Slots bound the requests under way upstream, of reads and writes together. There are fewer
// while upstream does not take as many: see window. While both want more than there are, each
// has half of them; otherwise one may use the slots that the other leaves, but for an eighth. No
// namespace's reads hold all that the reads may have, and a namespace that has no slot for a
// write need not wait for others that have several. Its methods may be called concurrently.
type Slots struct {
	mu      sync.Mutex
	window  *window
	used    [2]int            // by part
	held    [2]map[string]int // by part, the slots of a namespace
	waiting [lanes][]*Slot
	turn    int // the part that is served first next time
}

// Slot is a request in line, or with its slot.
type Slot struct {
	slots   *Slots
	lane    Lane
	granted chan struct{} // closed when it has its slot
	request
}

// NewSlots returns a number of slots, at least one.
func NewSlots(most int) *Slots {
	return &Slots{window: newWindow(most), held: [2]map[string]int{{}, {}}}
}

// Concurrency says how many requests may be under way.
func (s *Slots) Concurrency() Concurrency {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.window.concurrency(time.Now())
}

// Acquire waits for a slot for a first request. The caller releases it once. The errors are ctx's and
// [ErrBusy].
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

// leave takes a request out of line, or gives back the slot that it has got meanwhile.
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

// Release gives the slot back.
func (r *Slot) Release() {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	r.slots.use(r, -1)
	r.slots.grant()
}

// Begin notes that a request begins in the slot: the first one, or another one after it.
func (r *Slot) Begin() {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	r.note()
}

// note is called when a request begins. The caller holds mu.
func (r *Slot) note() { r.sent, r.failing = time.Now(), r.slots.window.failing[r.origin] }

// Ended takes in how the slot's request has ended: whether upstream pushed back, and whether it
// answered for itself. It is not called for a request that was not made, or that its caller has given up.
func (r *Slot) Ended(pushedBack, answered bool) {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	r.slots.window.takeIn(&r.request, pushedBack, answered, time.Now())
}

// use counts a slot that a request has got, or given back. The caller holds mu.
func (s *Slots) use(r *Slot, change int) {
	part := r.lane.part()
	s.used[part] += change
	if s.held[part][r.namespace] += change; s.held[part][r.namespace] == 0 {
		delete(s.held[part], r.namespace)
	}
}

// grant gives free slots to those in line. The caller holds mu.
func (s *Slots) grant() {
	for r := s.take(s.turn, 1-s.turn); r != nil; r = s.take(s.turn, 1-s.turn) {
		s.use(r, +1)
		r.note()
		close(r.granted)
		s.turn = 1 - r.lane.part()
	}
}

// take takes the first request out of line that may have a slot, one part before the
// other; nil if there is none.
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

// most returns how many slots a part may have at most.
func (s *Slots) most() int { return MostOf(s.window.size) }

// MostOf returns how many of a number of slots reads, or writes, may have at most.
func MostOf(total int) int { return total - total/keptShare }

// crowded reports whether the writes have all the slots that they may have, and some
// namespaces have several: their requests may hang. The write of a namespace that has none
// may then take one that is kept for reads, if that is not the last one.
func (s *Slots) crowded() bool {
	writes, total := s.used[Writes.part()], s.window.size
	return writes >= s.most() && writes+1 < total && writes+s.used[Reads.part()] < total &&
		writes > len(s.held[Writes.part()])
}

func (s *Slots) hasNone(r *Slot) bool { return s.held[r.lane.part()][r.namespace] == 0 }

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
func (s *Slots) hasPart(r *Slot) bool {
	part := r.lane.part()
	own := s.held[part][r.namespace]
	if r.lane == Writes || own == 0 {
		return true
	}
	others := s.used[part] - own
	return own < (s.most()-others)*readsOfOne/quarters // guard 16.15
}
