package flush

// ordered is an element of a heap, which knows its place there.
type ordered[T any] interface {
	before(other T) bool
	placed(index int) // -1 is in no heap
}

// heapBlock is how many elements a block of a heap holds. It bounds how much a push ever
// copies: the flusher's lock is held meanwhile.
const heapBlock = 1024

// heapOf is a binary heap that can remove any of its elements. It grows by blocks.
type heapOf[T ordered[T]] struct {
	blocks [][]T
	len    int
}

func (h *heapOf[T]) at(i int) T { return h.blocks[i/heapBlock][i%heapBlock] }

func (h *heapOf[T]) set(i int, x T) {
	h.blocks[i/heapBlock][i%heapBlock] = x
	x.placed(i)
}

// first is the element that comes before all others. There must be one.
func (h *heapOf[T]) first() T { return h.at(0) }

func (h *heapOf[T]) push(x T) {
	if h.len%heapBlock == 0 {
		h.blocks = append(h.blocks, nil)
	}
	last := &h.blocks[len(h.blocks)-1]
	*last = append(*last, x)
	x.placed(h.len)
	h.len++
	h.up(h.len - 1)
}

// remove takes out the element at an index.
func (h *heapOf[T]) remove(i int) T {
	x := h.at(i)
	h.len--
	moved := h.at(h.len)
	last := &h.blocks[h.len/heapBlock]
	clear((*last)[h.len%heapBlock:]) // so that it can be collected
	*last = (*last)[:h.len%heapBlock]
	if len(*last) == 0 {
		h.blocks = h.blocks[:len(h.blocks)-1]
	}
	if i < h.len {
		h.set(i, moved)
		h.fix(i)
	}
	x.placed(-1)
	return x
}

// fix moves an element whose order has changed to where it belongs.
func (h *heapOf[T]) fix(i int) {
	if !h.up(i) {
		h.down(i)
	}
}

// rebuild puts all elements in order after the order of many has changed.
func (h *heapOf[T]) rebuild() {
	for i := h.len/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heapOf[T]) up(i int) (moved bool) {
	x := h.at(i)
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(h.at(parent)) {
			break
		}
		h.set(i, h.at(parent))
		i, moved = parent, true
	}
	h.set(i, x)
	return moved
}

func (h *heapOf[T]) down(i int) {
	x := h.at(i)
	for {
		child := 2*i + 1
		if child >= h.len {
			break
		}
		if child+1 < h.len && h.at(child+1).before(h.at(child)) {
			child++
		}
		if !h.at(child).before(x) {
			break
		}
		h.set(i, h.at(child))
		i = child
	}
	h.set(i, x)
}
