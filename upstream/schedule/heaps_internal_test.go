package schedule

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
)

type number struct {
	value, index int
	compared     *int // counts the comparisons; may be nil
}

func (n *number) before(other *number) bool {
	if n.compared != nil {
		*n.compared++
	}
	return n.value < other.value
}

func (n *number) placed(index int) { n.index = index }

// A heap returns its elements in order, after many have moved in it or were removed from its middle.
func TestHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h heapOf[*number]
	var held []*number
	for step := range 20_000 {
		switch {
		case len(held) == 0 || random.IntN(3) > 0:
			n := &number{value: random.IntN(1000)}
			heap.Push(&h, n)
			held = append(held, n)
		case random.IntN(2) == 0:
			n := held[random.IntN(len(held))]
			n.value = random.IntN(1000)
			heap.Fix(&h, n.index)
		default:
			i := random.IntN(len(held))
			if n := heap.Remove(&h, held[i].index); n != held[i] || held[i].index != -1 {
				t.Fatalf("step %d: %+v was removed in place of %+v", step, n, held[i])
			}
			held = slices.Delete(held, i, i+1)
		}
	}
	if h.Len() != len(held) || h.Len() < 3000 {
		t.Fatalf("%d elements in the heap, want %d", h.Len(), len(held))
	}
	wantOrder(t, &h)
}

// wantOrder removes all elements of a heap, and checks that each is the least.
func wantOrder(t *testing.T, h *heapOf[*number]) {
	t.Helper()
	last := -1
	for h.Len() > 0 {
		n := heap.Pop(h).(*number)
		if n.value < last {
			t.Fatalf("%d comes after %d", n.value, last)
		}
		last = n.value
	}
}

// If all elements of a heap have changed, restoring the order takes a few comparisons per element,
// however many there are.
func TestARebuiltHeapIsInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	compared := 0
	for _, n := range []int{0, 1, 2, 3, 100, 3000 + 1} {
		var h heapOf[*number]
		for range n {
			heap.Push(&h, &number{value: random.IntN(1000), compared: &compared})
		}
		for i := range h.Len() {
			h[i].value = random.IntN(1000)
		}
		compared = 0
		if heap.Init(&h); compared > 2*n {
			t.Errorf("%d comparisons for %d elements", compared, n)
		}
		for i := range h.Len() {
			if h[i].index != i {
				t.Errorf("the element at %d believes that it is at %d", i, h[i].index)
			}
		}
		wantOrder(t, &h)
	}
}

// tryNow allocates nothing for the failed tasks of a queue, because the lock is held.
func TestTryNowTakesNoMemory(t *testing.T) {
	q := &Queue{index: -1}
	for i := range 3000 {
		heap.Push(&q.puts.retries[backingOff], &retryState{task: &task{first: uint64(i)}, at: Instant(1 + i), index: -1})
	}
	if n := testing.AllocsPerRun(3, func() { q.tryNow(1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range q.puts.retries[backingOff] {
		if r := q.puts.retries[backingOff][i]; r.at != AtOnce {
			t.Fatalf("a task waits until %d", r.at)
		}
	}
}
