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
	// refreshesWaiting bounds the refreshes in line. Nobody waits for them, and the next read
	// of the entry asks for another.
	refreshesWaiting = 1024
)

// errBusy says that so many requests are in line that one more makes no sense.
var errBusy = errors.New("too many requests are waiting to be sent upstream")

// Slots bound the requests under way upstream, of reads and writes together. While both
// want more than there are, each has half of them; otherwise one may use what the other
// leaves, but for an eighth. Its methods may be called concurrently.
type Slots struct {
	total int

	mu      sync.Mutex
	used    [2]int // by part
	waiting [lanes][]chan struct{}
	turn    int // the part that is served first next time
}

// NewSlots returns a number of slots, at least one.
func NewSlots(total int) *Slots { return &Slots{total: total} }

// ForWrites returns an engine all of whose requests count as writes.
func (s *Slots) ForWrites(engine Engine) Engine { return &slotted{engine, s} }

// acquire waits for a slot. release gives it back, and is to be called once. The errors
// are ctx's and errBusy.
func (s *Slots) acquire(ctx context.Context, l lane) (release func(), err error) {
	s.mu.Lock()
	if l == refreshLane && len(s.waiting[l]) >= refreshesWaiting {
		s.mu.Unlock()
		return nil, errBusy
	}
	granted := make(chan struct{})
	s.waiting[l] = append(s.waiting[l], granted)
	s.grant()
	s.mu.Unlock()
	select {
	case <-granted:
	case <-ctx.Done():
		s.leave(l, granted)
		return nil, ctx.Err()
	}
	return func() { s.release(l) }, nil
}

// leave takes a request out of line, or gives back the slot that it has got meanwhile.
func (s *Slots) leave(l lane, granted chan struct{}) {
	s.mu.Lock()
	i := slices.Index(s.waiting[l], granted)
	if i >= 0 {
		s.waiting[l] = slices.Delete(s.waiting[l], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		s.release(l)
	}
}

func (s *Slots) release(l lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[l.part()]--
	s.grant()
}

// grant gives free slots to those in line. The caller holds mu.
func (s *Slots) grant() {
	for {
		l, ok := s.next()
		if !ok {
			return
		}
		close(s.waiting[l][0])
		s.waiting[l] = s.waiting[l][1:]
		s.used[l.part()]++
		s.turn = 1 - l.part()
	}
}

// next is the lane that a slot is for, if there is one.
func (s *Slots) next() (l lane, ok bool) {
	for _, part := range []int{s.turn, 1 - s.turn} {
		if l, ok := s.first(part); ok && s.mayTake(part) {
			return l, true
		}
	}
	return 0, false
}

// first is the lane of a part that comes first.
func (s *Slots) first(part int) (l lane, ok bool) {
	for l := range lanes {
		if l.part() == part && len(s.waiting[l]) > 0 {
			return l, true
		}
	}
	return 0, false
}

// mayTake reports whether a part may take one more slot.
func (s *Slots) mayTake(part int) bool {
	used := s.used[part]
	_, contended := s.first(1 - part)
	switch {
	case used+s.used[1-part] >= s.total, used >= s.total-s.total/keptShare:
		return false
	case contended:
		return used < (s.total+1)/2
	}
	return true
}

// slotted is an engine whose requests wait for a slot.
type slotted struct {
	engine Engine
	slots  *Slots
}

// do makes a request. One that waited in vain was not sent.
func (s *slotted) do(ctx context.Context, request func() error) error {
	release, err := s.slots.acquire(ctx, writeLane)
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
