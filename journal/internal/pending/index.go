// Package pending is the journal's index: which entries have a write that upstream has not
// confirmed, without the values. It is pure memory, and small: there may be a million of
// them. Nothing in it is safe for concurrent use; the journal's lock guards all of it.
//
// An entry has one visible write, the newest that is durable, and perhaps writes that are
// on their way to being durable. Until the index is complete, after a start, it speaks only
// for the entries that were looked up in the store (see [Index.Known]).
package pending

import (
	"math"

	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal/internal/record"
)

// Index is the pending set.
type Index struct {
	spaces hashtable.Table[Space, *Space]
	// touched names the entries that were looked up or written before the index was
	// rebuilt, and with an empty key the namespaces. The rebuild skips their records,
	// which are known or out of date. It is nil once the index is complete.
	touched map[record.ID]struct{}
}

// Space is a namespace's share of the index.
type Space struct {
	hashtable.Node[Space]
	entries hashtable.Table[Entry, *Entry]
	count   int   // entries with a visible write
	bytes   int64 // their sizes, as [record.Version.Size] counts them
	oldest  oldest
}

// New returns an empty index that is not complete.
func New() *Index {
	return &Index{touched: make(map[record.ID]struct{})}
}

// Complete reports whether the index speaks for every entry.
func (x *Index) Complete() bool { return x.touched == nil }

// SetComplete has the index speak for every entry.
func (x *Index) SetComplete() { x.touched = nil }

// Known reports whether the index speaks for the entry or, with an empty key, for the
// whole namespace.
func (x *Index) Known(id record.ID) bool {
	if x.Complete() {
		return true
	}
	if _, ok := x.touched[id]; ok {
		return true
	}
	_, ok := x.touched[record.ID{Namespace: id.Namespace}]
	return ok // guard 6.3
}

// Touch has the index speak for the entry or, with an empty key, for the whole namespace.
func (x *Index) Touch(id record.ID) {
	if !x.Complete() {
		x.touched[id] = struct{}{}
	}
}

// Get returns the entry, or nil if it has no write.
func (x *Index) Get(id record.ID) *Entry {
	s := x.spaces.Get(id.Namespace)
	if s == nil {
		return nil
	}
	return s.entries.Get(id.Key)
}

// Add makes a write the entry's newest, which is not visible yet.
func (x *Index) Add(id record.ID, w *Write) *Entry {
	w.entry = x.ensure(id)
	w.entry.enqueue(w)
	return w.entry
}

// Restore makes a write the visible one of an entry that has none.
func (x *Index) Restore(id record.ID, v record.Version) { x.setVisible(x.ensure(id), v) }

// Show makes the first of an entry's coming writes visible. It returns the write that this
// one replaces, if there is one.
func (x *Index) Show(w *Write) (replaced record.Version, ok bool) {
	e := w.entry
	replaced, ok = e.Visible()
	e.dequeue()
	x.setVisible(e, w.Version)
	return replaced, ok
}

func (x *Index) setVisible(e *Entry, v record.Version) {
	s := e.space
	if old, ok := e.Visible(); ok {
		s.bytes -= old.Size(e.ID())
	} else {
		s.count++
	}
	s.bytes += v.Size(e.ID())
	e.set(v)
	s.oldest.came(v.Since)
}

// Drop forgets an entry whose last write has left the pending set.
func (x *Index) Drop(e *Entry) {
	s := e.space
	v, _ := e.Visible()
	s.count--
	s.bytes -= v.Size(e.ID())
	s.oldest.left(v.Since)
	s.entries.Delete(e.Key())
	if s.entries.Len() == 0 {
		x.spaces.Delete(s.Key())
	}
}

// WaitsSince moves the beginning of an entry's wait on to t, in Unix seconds: all its
// writes from before t are done with.
func (x *Index) WaitsSince(e *Entry, t float64) {
	e.coming(func(w *Write) { w.Since = max(w.Since, t) })
	v, ok := e.Visible()
	if !ok || v.Since >= t {
		return
	}
	e.space.oldest.left(v.Since)
	v.Since = t
	e.set(v)
	e.space.oldest.came(t)
}

func (x *Index) ensure(id record.ID) *Entry {
	s := x.spaces.Get(id.Namespace)
	if s == nil {
		s = &Space{}
		x.spaces.Insert(id.Namespace, s)
	}
	e := s.entries.Get(id.Key)
	if e == nil {
		e = &Entry{space: s}
		s.entries.Insert(id.Key, e)
	}
	return e
}

// Space returns a namespace's share, or nil if it has none.
func (x *Index) Space(namespace string) *Space { return x.spaces.Get(namespace) }

// WalkSpaces visits the shares of about n namespaces, from a cursor on. See
// [hashtable.Table.Walk]: the index may change between two calls.
func (x *Index) WalkSpaces(cursor, n int, visit func(*Space)) (next int, done bool) {
	return x.spaces.Walk(cursor, n, visit)
}

// Name returns the namespace.
func (s *Space) Name() string { return s.Key() }

// Len returns the number of entries with a visible write.
func (s *Space) Len() int { return s.count }

// Bytes adds up the sizes of the visible writes, as [record.Version.Size] counts them.
func (s *Space) Bytes() int64 { return s.bytes }

// Walk visits about n entries with a visible write, from a cursor on. See
// [hashtable.Table.Walk]: the index may change between two calls.
func (s *Space) Walk(cursor, n int, visit func(*Entry)) (next int, done bool) {
	return s.entries.Walk(cursor, n, func(e *Entry) {
		if e.seq != 0 {
			visit(e)
		}
	})
}

// Oldest returns since when the namespace's oldest entry has been waiting, in Unix seconds. If
// exact is false, that entry has left: the next oldest has waited no longer, and a [Search] finds
// it.
func (s *Space) Oldest() (since float64, exact bool) { return s.oldest.since, !s.oldest.stale }

// Search finds a namespace's oldest entry in steps, between which the index may change. A
// namespace has one search at a time.
type Search struct {
	space  *Space
	cursor int
	since  float64
}

// NewSearch begins a search, in place of any that is under way.
func (s *Space) NewSearch() *Search {
	q := &Search{space: s, since: math.Inf(1)}
	s.oldest.found, s.oldest.stale = &q.since, false
	return q
}

// Step walks over about n entries, and reports whether the search is over. Readers of
// the index may work beside it, but for [Space.Oldest].
func (q *Search) Step(n int) (done bool) {
	o := &q.space.oldest
	if o.found != &q.since {
		return true // another one has begun
	}
	q.cursor, done = q.space.Walk(q.cursor, n, func(e *Entry) { // guard 6.9
		v, _ := e.Visible()
		q.since = min(q.since, v.Since)
	})
	if !done {
		return false
	}
	o.found, o.since = nil, q.since
	if math.IsInf(o.since, 1) {
		o.since = 0 // the next write that becomes visible is the oldest
	}
	return true
}
