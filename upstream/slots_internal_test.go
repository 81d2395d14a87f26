package upstream

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
	ending map[lane]chan struct{}
	got    chan lane
	about  int
}

// underWay runs a test with requests that wait for slots.
func underWay(t *testing.T, total int, test func(t *testing.T, r *requests)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &requests{slots: NewSlots(total), ending: make(map[lane]chan struct{}), got: make(chan lane, 10_000)}
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

// begin puts requests in line, each about a namespace of its own.
func (r *requests) begin(l lane, count int) {
	for range count {
		r.about++
		r.beginIn(fmt.Sprint(r.about), l, 1)
	}
}

func (r *requests) beginIn(namespace string, l lane, count int) {
	for range count {
		go func() {
			held, err := r.slots.acquire(context.Background(), l, namespace)
			if err != nil {
				return
			}
			r.got <- l
			<-r.ending[l]
			held.release()
		}()
		synctest.Wait() // in this order
	}
}

// end ends a number of requests under way, one after the other.
func (r *requests) end(l lane, count int) {
	for range count {
		r.ending[l] <- struct{}{}
		synctest.Wait()
	}
}

// given is how many slots each lane has got since the last time.
func (r *requests) given() map[lane]int {
	out := make(map[lane]int)
	for len(r.got) > 0 {
		out[<-r.got]++
	}
	return out
}

func (r *requests) want(t *testing.T, when string, want map[lane]int) {
	t.Helper()
	if diff := cmp.Diff(want, r.given()); diff != "" {
		t.Errorf("%s: slots given (-want +got):\n%s", when, diff)
	}
}

// The first to come may use the slots that the other does not want, but for a part that is
// kept. Once both want more than there are, each comes to have half.
func TestReadsAndWritesHaveAFairPart(t *testing.T) {
	for _, order := range [][2]lane{{writeLane, readLane}, {refreshLane, writeLane}} {
		first, second := order[0], order[1]
		underWay(t, 16, func(t *testing.T, r *requests) {
			r.begin(first, 100)
			r.want(t, "alone", map[lane]int{first: 14})
			r.begin(second, 100)
			r.want(t, "the other comes", map[lane]int{second: 2})
			r.end(first, 6)
			r.want(t, "the first ends", map[lane]int{second: 6})
			r.end(first, 3)
			r.end(second, 3)
			r.want(t, "both have half", map[lane]int{first: 3, second: 3})
		})
	}
}

func TestOneSlotIsSharedInTurns(t *testing.T) {
	underWay(t, 1, func(t *testing.T, r *requests) {
		r.begin(readLane, 5)
		r.begin(writeLane, 5)
		r.want(t, "at first", map[lane]int{readLane: 1})
		for range 4 {
			r.end(readLane, 1)
			r.want(t, "after a read", map[lane]int{writeLane: 1})
			r.end(writeLane, 1)
			r.want(t, "after a write", map[lane]int{readLane: 1})
		}
	})
}

// A read for which a caller waits comes before all refreshes, however many they are.
func TestRefreshesComeLastAndAreBounded(t *testing.T) {
	underWay(t, 1, func(t *testing.T, r *requests) {
		r.begin(refreshLane, 1+refreshesWaiting)
		if _, err := r.slots.acquire(t.Context(), refreshLane, "ns"); !errors.Is(err, errBusy) {
			t.Errorf("one more: %v, want that there are too many", err)
		}
		r.begin(readLane, 1)
		r.want(t, "at first", map[lane]int{refreshLane: 1})
		r.end(refreshLane, 1)
		r.want(t, "after one", map[lane]int{readLane: 1})
	})
}

// A request that leaves, in line or just as it is given a slot, keeps none.
func TestWhoLeavesTakesNoSlot(t *testing.T) {
	for range 200 {
		underWay(t, 1, func(t *testing.T, r *requests) {
			r.begin(writeLane, 1)
			ctx, cancel := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				defer close(left)
				if held, err := r.slots.acquire(ctx, readLane, "ns"); err == nil {
					held.release()
				}
			}()
			synctest.Wait()
			go cancel()
			r.ending[writeLane] <- struct{}{}
			<-left
			r.given()
			r.begin(writeLane, 1)
			r.want(t, "after all", map[lane]int{writeLane: 1})
		})
	}
}

// Reads that hang cannot be taken back: the reads of one namespace leave room for others.
func TestReadsOfOneNamespaceHoldNotAll(t *testing.T) {
	underWay(t, 16, func(t *testing.T, r *requests) {
		r.beginIn("hangs", readLane, 100)
		r.beginIn("hangs too", refreshLane, 100)
		r.want(t, "the first two", map[lane]int{readLane: 10, refreshLane: 3})
		r.begin(readLane, 2)
		r.want(t, "another", map[lane]int{readLane: 1})
		r.begin(writeLane, 2)
		r.want(t, "writes", map[lane]int{writeLane: 2})
	})
}

// The write of a namespace that has no slot takes one that is kept for reads, if others have
// several: their requests may hang. The last such slot stays.
func TestAWriteNeedNotWaitForOthersThatHang(t *testing.T) {
	underWay(t, 16, func(t *testing.T, r *requests) {
		r.beginIn("hangs", writeLane, 20)
		r.want(t, "alone", map[lane]int{writeLane: 14})
		r.beginIn("other", writeLane, 2)
		r.begin(writeLane, 1)
		r.want(t, "others", map[lane]int{writeLane: 1})
		r.begin(readLane, 2)
		r.want(t, "a read", map[lane]int{readLane: 1})
	})
}
