package flush

// ordered is an element of a heap, which knows its place there.
type ordered[T any] interface {
	before(other T) bool
	placed(index int) // -1 is in no heap
}

// heapBlock is how many elements a block of a heap holds. It bounds how much a push ever
// copies: the flusher's lock is held meanwhile.
const heapBlock = 1024

// heapOf holds the elements of a heap of package container/heap. It grows by blocks.
type heapOf[T ordered[T]] struct {
	blocks [][]T
	len    int
}

func (h *heapOf[T]) at(i int) T { return h.blocks[i/heapBlock][i%heapBlock] }

func (h *heapOf[T]) set(i int, x T) {
	h.blocks[i/heapBlock][i%heapBlock] = x
	x.placed(i)
}

func (h *heapOf[T]) Len() int { return h.len }

func (h *heapOf[T]) Less(i, j int) bool { return h.at(i).before(h.at(j)) }

func (h *heapOf[T]) Swap(i, j int) {
	x, y := h.at(i), h.at(j)
	h.set(i, y)
	h.set(j, x)
}

// Push adds an element at the end.
func (h *heapOf[T]) Push(added any) {
	x := added.(T)
	if h.len%heapBlock == 0 {
		h.blocks = append(h.blocks, nil)
	}
	last := &h.blocks[len(h.blocks)-1]
	*last = append(*last, x)
	x.placed(h.len)
	h.len++
}

// Pop takes out the element at the end.
func (h *heapOf[T]) Pop() any {
	x := h.at(h.len - 1)
	h.len--
	last := &h.blocks[h.len/heapBlock]
	clear((*last)[h.len%heapBlock:]) // so that it can be collected
	*last = (*last)[:h.len%heapBlock]
	if len(*last) == 0 {
		h.blocks = h.blocks[:len(h.blocks)-1]
	}
	x.placed(-1)
	return x
}
