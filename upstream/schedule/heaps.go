package schedule

// ordered is an element of a heap that knows its index in it.
type ordered[T any] interface {
	before(other T) bool
	placed(index int) // -1: in no heap
}

// heapOf implements heap.Interface of container/heap.
type heapOf[T ordered[T]] []T

func (h heapOf[T]) Len() int           { return len(h) }
func (h heapOf[T]) Less(i, j int) bool { return h[i].before(h[j]) }

func (h heapOf[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].placed(i)
	h[j].placed(j)
}

func (h *heapOf[T]) Push(added any) {
	x := added.(T)
	x.placed(len(*h))
	*h = append(*h, x)
}

func (h *heapOf[T]) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	clear((*h)[last:]) // so that it can be collected
	*h = (*h)[:last]
	x.placed(-1)
	return x
}
