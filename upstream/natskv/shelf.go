package natskv

import (
	"iter"
	"slices"
	"sort"
)

// blockSize bounds how many rows one insertion moves.
const blockSize = 256

// shelf keeps the rows of a namespace in order. It is a list of sorted blocks: an insertion finds its
// block and moves at most one block. The zero shelf is empty.
type shelf struct {
	blocks [][]*row // none is empty
	len    int
}

// Callers must always pass the same order, and it must be total.
type order func(a, b *row) bool

// block returns the index of the last block whose first row does not come after r, or else 0.
func (s *shelf) block(r *row, before order) int {
	after := sort.Search(len(s.blocks), func(i int) bool { return before(r, s.blocks[i][0]) })
	return max(after-1, 0)
}

func place(block []*row, r *row, before order) int {
	return sort.Search(len(block), func(i int) bool { return !before(block[i], r) })
}

func (s *shelf) insert(r *row, before order) {
	s.len++
	if len(s.blocks) == 0 {
		s.blocks = append(s.blocks, []*row{r})
		return
	}
	i := s.block(r, before)
	b := s.blocks[i]
	b = slices.Insert(b, place(b, r, before), r)
	if len(b) <= blockSize {
		s.blocks[i] = b
		return
	}
	// New rows mostly come first: cutting after the new row keeps the back block almost full.
	cut := len(b) / 2
	if b[0] == r {
		cut = 1
	}
	front, back := slices.Clone(b[:cut]), slices.Clone(b[cut:])
	s.blocks[i] = front
	s.blocks = slices.Insert(s.blocks, i+1, back)
}

// remove removes a row that is in the shelf. Its place in the order must not have changed.
func (s *shelf) remove(r *row, before order) {
	i := s.block(r, before)
	b := s.blocks[i]
	at := place(b, r, before)
	s.len--
	b = slices.Delete(b, at, at+1)
	switch {
	case len(b) == 0:
		s.blocks = slices.Delete(s.blocks, i, i+1)
		return
	case i > 0 && len(b)+len(s.blocks[i-1]) <= blockSize/2:
		s.blocks[i-1] = append(s.blocks[i-1], b...)
		s.blocks = slices.Delete(s.blocks, i, i+1)
		return
	}
	s.blocks[i] = b
}

func (s *shelf) all() iter.Seq[*row] {
	return func(yield func(*row) bool) {
		for _, b := range s.blocks {
			for _, r := range b {
				if !yield(r) {
					return
				}
			}
		}
	}
}
