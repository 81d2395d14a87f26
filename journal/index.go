package journal

import (
	"cmp"
	"container/heap"
	"slices"
)

// index is the pending set in memory: which writes await upstream, without their
// values. Journal.mu guards all of it.
type index struct {
	spaces map[string]*space
	// touched names the entries that were looked up or written before the index was
	// rebuilt, and with an empty key the namespaces: what the rebuild finds of them is
	// already known or already old. It is nil once the index is complete.
	touched map[ID]struct{}
}

// space is a namespace's share of the index.
type space struct {
	nodes  map[string]*node
	count  int   // nodes with a visible write
	bytes  int64 // their sizes
	oldest *node // list of nodes with a visible write, in order of since
	newest *node
}

// node is an entry with at least one write that has not settled.
type node struct {
	id    ID
	space *space
	// visible is the newest durable write, the one that readers see; seq is 0 while
	// there is none.
	visible version
	// coming are the writes that were given a sequence number and are not visible yet, in
	// that order, in which they become so.
	coming []*version
	linked bool
	older  *node
	newer  *node
}

// latest is the newest write to the entry, durable or not, and nil if there is none.
func (n *node) latest() *version {
	if n == nil {
		return nil
	}
	if k := len(n.coming); k > 0 {
		return n.coming[k-1]
	}
	if n.visible.seq != 0 {
		return &n.visible
	}
	return nil
}

// arrive ends the coming of the first write.
func (n *node) arrive() {
	if n.coming = n.coming[1:]; len(n.coming) == 0 {
		n.coming = nil
	}
}

func newIndex() index {
	return index{spaces: make(map[string]*space), touched: make(map[ID]struct{})}
}

func (x *index) complete() bool { return x.touched == nil }

// known reports whether the index speaks for the entry.
func (x *index) known(id ID) bool {
	if x.complete() {
		return true
	}
	return x.isTouched(id)
}

// isTouched reports whether the entry, or its whole namespace, was faulted in.
func (x *index) isTouched(id ID) bool {
	if _, ok := x.touched[id]; ok {
		return true
	}
	_, ok := x.touched[ID{Namespace: id.Namespace}]
	return ok
}

func (x *index) get(id ID) *node {
	s := x.spaces[id.Namespace]
	if s == nil {
		return nil
	}
	return s.nodes[id.Key]
}

// ensure returns the entry's node, made if need be.
func (x *index) ensure(id ID) *node {
	s := x.spaces[id.Namespace]
	if s == nil {
		s = &space{nodes: make(map[string]*node)}
		x.spaces[id.Namespace] = s
	}
	n := s.nodes[id.Key]
	if n == nil {
		n = &node{id: id, space: s}
		s.nodes[id.Key] = n
	}
	return n
}

// show makes v the write that readers of the entry see.
func (x *index) show(n *node, v *version) {
	s := n.space
	if n.visible.seq != 0 {
		s.bytes -= n.visible.size(n.id)
	} else {
		s.count++
		s.link(n)
	}
	n.visible = *v
	s.bytes += v.size(n.id)
}

// drop forgets a node whose last write has left the pending set.
func (x *index) drop(n *node) {
	s := n.space
	s.count--
	s.bytes -= n.visible.size(n.id)
	s.unlink(n)
	delete(s.nodes, n.id.Key)
	if len(s.nodes) == 0 {
		delete(x.spaces, n.id.Namespace)
	}
}

// waitsSince moves the beginning of an entry's wait on to t: all its writes from
// before t are done with.
func (x *index) waitsSince(n *node, t float64) {
	for _, v := range n.coming {
		v.since = max(v.since, t)
	}
	if !n.linked || n.visible.since >= t {
		return
	}
	n.visible.since = t
	s, at := n.space, n
	for at.newer != nil && at.newer.visible.since < t {
		at = at.newer
	}
	if at != n {
		s.unlink(n)
		s.linkAfter(at, n)
	}
}

// linkAfter puts n into the list behind at.
func (s *space) linkAfter(at, n *node) {
	if at.newer == nil {
		s.link(n)
		return
	}
	n.linked, n.older, n.newer = true, at, at.newer
	at.newer.older = n
	at.newer = n
}

func (s *space) link(n *node) {
	n.linked, n.older = true, s.newest
	if s.newest != nil {
		s.newest.newer = n
	} else {
		s.oldest = n
	}
	s.newest = n
}

func (s *space) unlink(n *node) {
	if !n.linked {
		return
	}
	if n.older != nil {
		n.older.newer = n.newer
	} else {
		s.oldest = n.newer
	}
	if n.newer != nil {
		n.newer.older = n.older
	} else {
		s.newest = n.older
	}
	n.linked, n.older, n.newer = false, nil, nil
}

// sortByAge puts the namespace's list in order of since: a rebuild links nodes in
// the order of their keys.
func (s *space) sortByAge() {
	nodes := make([]*node, 0, s.count)
	for n := s.oldest; n != nil; n = n.newer {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.visible.since, b.visible.since), cmp.Compare(a.visible.seq, b.visible.seq))
	})
	s.oldest, s.newest = nil, nil
	for _, n := range nodes {
		n.older, n.newer = nil, nil
		s.link(n)
	}
}

func (n *node) pending() Pending {
	v := &n.visible
	return Pending{
		ID: n.id, Seq: v.seq, Op: v.op, Bytes: int(v.bytes), ListBytes: int(v.listBytes),
		UpdatedAt: v.updatedAt, Since: v.since,
	}
}

// mergeByAge walks lists of nodes, given by their heads, in the order of since.
func mergeByAge(heads []*node, limit int) []Pending {
	h := nodeHeap(heads)
	heap.Init(&h)
	out := make([]Pending, 0, max(0, min(limit, 1024)))
	for len(h) > 0 && len(out) < limit {
		n := h[0]
		out = append(out, n.pending())
		if n.newer == nil {
			heap.Pop(&h)
			continue
		}
		h[0] = n.newer
		heap.Fix(&h, 0)
	}
	return out
}

type nodeHeap []*node

func (h nodeHeap) Len() int           { return len(h) }
func (h nodeHeap) Less(i, k int) bool { return h[i].visible.since < h[k].visible.since }
func (h nodeHeap) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *nodeHeap) Push(x any)        { *h = append(*h, x.(*node)) }

func (h *nodeHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
