package upstream

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type number struct{ value, index int }

func (n *number) before(other *number) bool { return n.value < other.value }
func (n *number) placed(index int)          { n.index = index }

// A heap of many blocks gives its elements back in order, whatever was moved in it and
// taken from its middle.
func TestHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h heapOf[*number]
	var held []*number
	for step := range 20_000 {
		switch {
		case len(held) == 0 || random.IntN(3) > 0:
			n := &number{value: random.IntN(1000)}
			h.push(n)
			held = append(held, n)
		case random.IntN(2) == 0:
			n := held[random.IntN(len(held))]
			n.value = random.IntN(1000)
			h.fix(n.index)
		default:
			i := random.IntN(len(held))
			if n := h.remove(held[i].index); n != held[i] || n.index != -1 {
				t.Fatalf("step %d: %+v was removed in place of %+v", step, n, held[i])
			}
			held = slices.Delete(held, i, i+1)
		}
	}
	if h.len != len(held) || h.len < 3*heapBlock {
		t.Fatalf("%d elements in the heap, want %d", h.len, len(held))
	}
	last := -1
	for h.len > 0 {
		n := h.remove(0)
		if n.value < last {
			t.Fatalf("%d comes after %d", n.value, last)
		}
		last = n.value
	}
}
