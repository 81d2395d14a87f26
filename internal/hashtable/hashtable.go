// Package hashtable finds elements by their keys at a cost of two words each: one in the element, one
// in the table. A million elements of 80 bytes take 90 B each here and 136 B in a map of Go 1.26. The
// map's slowest insertions also take six times as long, and a map has no [Table.Walk] (go test
// ./internal/hashtable -bench AMillion -benchtime 1x).
//
// A [Table] uses linear hashing (Litwin, 1980): an insertion splits at most one bucket, so no caller
// ever waits for a whole table to be rehashed. Chains run through the elements, which embed a [Node].
// Tables do not shrink; their owner should drop an empty one.
package hashtable

import "hash/maphash"

// Node is embedded in the elements of a table.
type Node[E any] struct {
	key  string
	next *E
}

// Key returns the key under which the element was inserted.
func (n *Node[E]) Key() string { return n.key }

func (n *Node[E]) node() *Node[E] { return n }

// Element is a pointer to a type that embeds its own [Node].
type Element[E any] interface {
	*E
	node() *Node[E]
}

// segmentSize bounds how many buckets are allocated or moved at once.
const segmentSize = 512

// Table is a set of elements with distinct keys. The zero table is empty and ready. It is
// not safe for concurrent use.
type Table[E any, P Element[E]] struct {
	seed maphash.Seed
	// segments hold the buckets. Each bucket holds the first element of its chain. There are base+split
	// buckets, and base is a power of two. The buckets before split and from base on use one more bit
	// of the hash.
	segments    [][]P
	base, split uint64
	count       int
}

// Len returns the number of elements.
func (t *Table[E, P]) Len() int { return t.count }

// Get returns the element of a key, or nil if there is none.
func (t *Table[E, P]) Get(key string) P {
	if t.count == 0 {
		return nil
	}
	e := *t.bucket(key)
	for e != nil && e.node().key != key {
		e = e.node().next
	}
	return e
}

// Insert adds an element under a key that the table must not hold yet.
func (t *Table[E, P]) Insert(key string, e P) {
	if t.base == 0 {
		t.seed, t.base = maphash.MakeSeed(), 1
		t.grow()
	}
	first := t.bucket(key)
	n := e.node()
	n.key, n.next = key, *first
	*first = e
	if t.count++; uint64(t.count) > t.base+t.split {
		t.splitBucket()
	}
}

// Delete removes the element of a key, if there is one.
func (t *Table[E, P]) Delete(key string) {
	if t.count == 0 {
		return
	}
	first := t.bucket(key)
	var before P
	for e := *first; e != nil; before, e = e, e.node().next {
		n := e.node()
		if n.key != key {
			continue
		}
		if before == nil {
			*first = n.next
		} else {
			before.node().next = n.next
		}
		n.next = nil
		t.count--
		return
	}
}

// Walk visits the elements of some buckets, starting at a cursor, until it has visited about n. It
// returns the next cursor; done reports whether the walk is at its end. The first cursor is 0. The
// table may change between two calls: an element that stays in it from the first call to the last is
// visited at least once, perhaps twice.
func (t *Table[E, P]) Walk(cursor, n int, visit func(P)) (next int, done bool) {
	buckets := int(t.base + t.split)
	for visited := 0; cursor < buckets && visited < n; cursor++ {
		visited++ // an empty bucket is work too
		// guard 6.6
		for e := *t.at(uint64(cursor)); e != nil; e = e.node().next {
			visit(e)
			visited++
		}
	}
	return cursor, cursor >= buckets
}

// bucket returns the bucket of a key, which is the head of its chain.
func (t *Table[E, P]) bucket(key string) *P {
	hash := maphash.String(t.seed, key)
	i := hash & (2*t.base - 1)
	if i >= t.base+t.split {
		i -= t.base
	}
	return t.at(i)
}

func (t *Table[E, P]) at(i uint64) *P { return &t.segments[i/segmentSize][i%segmentSize] }

// splitBucket adds a bucket, and moves elements into it from the bucket whose turn it is. An element
// only ever moves to a higher bucket; [Table.Walk] relies on that.
func (t *Table[E, P]) splitBucket() {
	t.grow()
	from := t.at(t.split)
	e := *from
	*from = nil
	if t.split++; t.split == t.base {
		t.base, t.split = 2*t.base, 0
	}
	for e != nil {
		n := e.node()
		next := n.next
		first := t.bucket(n.key)
		n.next = *first
		*first = e
		e = next
	}
}

// grow adds an empty bucket at the end. Only the first segment ever moves.
func (t *Table[E, P]) grow() {
	last := len(t.segments) - 1
	if last < 0 || len(t.segments[last]) == segmentSize {
		size := segmentSize
		if last < 0 {
			size = 1
		}
		t.segments = append(t.segments, make([]P, 0, size))
		last++
	}
	t.segments[last] = append(t.segments[last], nil)
}
