package upstream

// ordered is what can stand in a heap and knows where it does.
type ordered[T any] interface {
	before(other T) bool
	placed(index int) // -1 is in no heap
}

// heapOf is a heap.Interface whose elements can be moved and taken from its middle.
type heapOf[T ordered[T]] []T

func (h heapOf[T]) Len() int           { return len(h) }
func (h heapOf[T]) Less(i, k int) bool { return h[i].before(h[k]) }

func (h heapOf[T]) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].placed(i)
	h[k].placed(k)
}

func (h *heapOf[T]) Push(x any) {
	last := x.(T)
	last.placed(len(*h))
	*h = append(*h, last)
}

func (h *heapOf[T]) Pop() any {
	old := *h
	last := old[len(old)-1]
	clear(old[len(old)-1:]) // so that it can be collected
	*h = old[:len(old)-1]
	last.placed(-1)
	return last
}

// before is by due time, then by age.
func (t *task) before(other *task) bool {
	if t.due == other.due {
		return t.seq < other.seq
	}
	return t.due < other.due
}

func (t *task) placed(index int) { t.index = int32(index) }

// before is by ready time, then by turns.
func (sp *space) before(other *space) bool {
	if sp.readyAt == other.readyAt {
		return sp.served < other.served
	}
	return sp.readyAt < other.readyAt
}

func (sp *space) placed(index int) { sp.index = index }
