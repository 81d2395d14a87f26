package limit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// requests wait for slots, and hold them until the test ends them.
type requests struct {
	slots  *Slots
	ending map[Lane]chan struct{}
	got    chan Lane
	about  int
}

// underWay runs a test with requests that wait for slots.
func underWay(t *testing.T, total int, test func(t *testing.T, r *requests)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &requests{slots: NewSlots(total), ending: make(map[Lane]chan struct{}), got: make(chan Lane, 10_000)}
		for l := range lanes {
			r.ending[l] = make(chan struct{})
		}
		defer func() {
			for _, c := range r.ending {
				close(c)
			}
			synctest.Wait()
		}()
		test(t, r)
	})
}

// begin makes requests wait, each for a namespace of its own.
func (r *requests) begin(l Lane, count int) {
	for range count {
		r.about++
		r.beginIn(fmt.Sprint(r.about), l, 1)
	}
}

func (r *requests) beginIn(namespace string, l Lane, count int) {
	for range count {
		go func() {
			held, err := r.slots.Acquire(context.Background(), l, namespace)
			if err != nil {
				return
			}
			r.got <- l
			<-r.ending[l]
			held.Release()
		}()
		synctest.Wait() // keeps the order
	}
}

// end ends a number of requests in flight, one after the other.
func (r *requests) end(l Lane, count int) {
	for range count {
		r.ending[l] <- struct{}{}
		synctest.Wait()
	}
}

// given returns how many slots each Lane has got since the last call.
func (r *requests) given() map[Lane]int {
	out := make(map[Lane]int)
	for len(r.got) > 0 {
		out[<-r.got]++
	}
	return out
}

func (r *requests) want(t *testing.T, when string, want map[Lane]int) {
	t.Helper()
	if diff := cmp.Diff(want, r.given()); diff != "" {
		t.Errorf("%s: slots given (-want +got):\n%s", when, diff)
	}
}

// Either part may use the slots that the other does not want, except the reserved ones. Once both want
// more than there are, each gets half.
func TestReadsAndWritesHaveAFairPart(t *testing.T) {
	for _, order := range [][2]Lane{{Writes, Reads}, {Refreshes, Writes}} {
		first, second := order[0], order[1]
		underWay(t, 16, func(t *testing.T, r *requests) {
			r.begin(first, 100)
			r.want(t, "alone", map[Lane]int{first: 14})
			r.begin(second, 100)
			r.want(t, "the other comes", map[Lane]int{second: 2})
			r.end(first, 6)
			r.want(t, "the first ends", map[Lane]int{second: 6})
			r.end(first, 3)
			r.end(second, 3)
			r.want(t, "both have half", map[Lane]int{first: 3, second: 3})
		})
	}
}

func TestOneSlotIsSharedInTurns(t *testing.T) {
	underWay(t, 1, func(t *testing.T, r *requests) {
		r.begin(Reads, 5)
		r.begin(Writes, 5)
		r.want(t, "at first", map[Lane]int{Reads: 1})
		for range 4 {
			r.end(Reads, 1)
			r.want(t, "after a read", map[Lane]int{Writes: 1})
			r.end(Writes, 1)
			r.want(t, "after a write", map[Lane]int{Reads: 1})
		}
	})
}

// A read that a caller waits for comes before all refreshes, however many there are.
func TestRefreshesComeLastAndAreBounded(t *testing.T) {
	underWay(t, 1, func(t *testing.T, r *requests) {
		r.begin(Refreshes, 1+refreshesWaiting)
		if _, err := r.slots.Acquire(t.Context(), Refreshes, "ns"); !errors.Is(err, ErrBusy) {
			t.Errorf("one more: %v, want that there are too many", err)
		}
		r.begin(Reads, 1)
		r.want(t, "at first", map[Lane]int{Refreshes: 1})
		r.end(Refreshes, 1)
		r.want(t, "after one", map[Lane]int{Reads: 1})
	})
}

// A request that gives up, waiting or just as it gets a slot, keeps none.
func TestWhoLeavesTakesNoSlot(t *testing.T) {
	for range 200 {
		underWay(t, 1, func(t *testing.T, r *requests) {
			r.begin(Writes, 1)
			ctx, cancel := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				defer close(left)
				if held, err := r.slots.Acquire(ctx, Reads, "ns"); err == nil {
					held.Release()
				}
			}()
			synctest.Wait()
			go cancel()
			r.ending[Writes] <- struct{}{}
			<-left
			r.given()
			r.begin(Writes, 1)
			r.want(t, "after all", map[Lane]int{Writes: 1})
		})
	}
}

// Reads that hang cannot be taken back: the reads of one namespace leave room for others.
func TestReadsOfOneNamespaceHoldNotAll(t *testing.T) {
	underWay(t, 16, func(t *testing.T, r *requests) {
		r.beginIn("hangs", Reads, 100)
		r.beginIn("hangs too", Refreshes, 100)
		r.want(t, "the first two", map[Lane]int{Reads: 10, Refreshes: 3})
		r.begin(Reads, 2)
		r.want(t, "another", map[Lane]int{Reads: 1})
		r.begin(Writes, 2)
		r.want(t, "writes", map[Lane]int{Writes: 2})
	})
}

// The write of a namespace without a slot takes one reserved for reads if others hold several: their
// requests may hang. The last such slot stays.
func TestAWriteNeedNotWaitForOthersThatHang(t *testing.T) {
	underWay(t, 16, func(t *testing.T, r *requests) {
		r.beginIn("hangs", Writes, 20)
		r.want(t, "alone", map[Lane]int{Writes: 14})
		r.beginIn("other", Writes, 2)
		r.begin(Writes, 1)
		r.want(t, "others", map[Lane]int{Writes: 1})
		r.begin(Reads, 2)
		r.want(t, "a read", map[Lane]int{Reads: 1})
	})
}
