// Package pending is the journal's index of entries with a write that upstream has not confirmed. It
// does not hold the values. It is pure memory, and small, because there may be a million entries.
// Nothing in it is safe for concurrent use; the journal's lock guards it.
//
// An entry has one visible write, which is the newest durable one, and possibly writes that are not
// durable yet. After a start, until the index is complete, it knows only the entries that were looked
// up in the store (see [Index.Known]).
package pending

import (
	"math"

	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal/internal/record"
)

// Index is the pending set.
type Index struct {
	spaces hashtable.Table[Space, *Space]
	// touched has the entries that were looked up or written before the index was rebuilt, and, with an
	// empty key, the namespaces. The rebuild skips their records, which are known or outdated. It is
	// nil once the index is complete.
	touched map[record.ID]struct{}
}

// Space is a namespace's share of the index.
type Space struct {
	hashtable.Node[Space]
	entries hashtable.Table[Entry, *Entry]
	count   int   // entries with a visible write
	bytes   int64 // sum of their sizes, as [record.Pending.Size] counts them
	newest  int64 // the same sum of the newest writes, visible or not
	oldest  oldest
}

// New returns an empty, incomplete index.
func New() *Index {
	return &Index{touched: make(map[record.ID]struct{})}
}

// Complete reports whether the index knows every entry.
func (x *Index) Complete() bool { return x.touched == nil }

// SetComplete marks the index complete.
func (x *Index) SetComplete() { x.touched = nil }

// Known reports whether the index knows the entry or, with an empty key, the whole namespace.
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

// Touch marks the entry or, with an empty key, the whole namespace as known.
func (x *Index) Touch(id record.ID) {
	if !x.Complete() {
		x.touched[id] = struct{}{}
	}
}

// Get returns the entry, or nil if the index has no write to it.
func (x *Index) Get(id record.ID) *Entry {
	s := x.spaces.Get(id.Namespace)
	if s == nil {
		return nil
	}
	return s.entries.Get(id.Key)
}

// Add makes a write the entry's newest. The write is not visible yet.
func (x *Index) Add(id record.ID, w *Write) *Entry {
	w.entry = x.ensure(id)
	if old, ok := w.entry.Latest(); ok {
		w.entry.space.newest -= old.Size(id)
	}
	w.entry.space.newest += w.Size(id)
	w.entry.enqueue(w)
	return w.entry
}

// Restore makes a write of an earlier process visible for an entry that has none. That process may have sent it.
func (x *Index) Restore(id record.ID, v record.Pending) {
	e := x.ensure(id)
	e.Sent = true // guard 14.16
	e.space.newest += v.Size(id)
	x.setVisible(e, v)
}

// Show makes an entry's first invisible write visible. It returns the write that this one replaces, if
// there is one.
func (x *Index) Show(w *Write) (replaced record.Pending, ok bool) {
	e := w.entry
	replaced, ok = e.Visible()
	e.dequeue()
	x.setVisible(e, w.Pending)
	return replaced, ok
}

func (x *Index) setVisible(e *Entry, v record.Pending) {
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

// Drop removes an entry whose last write has left the pending set.
func (x *Index) Drop(e *Entry) {
	s := e.space
	v, _ := e.Visible()
	s.count--
	s.bytes -= v.Size(e.ID())
	s.newest -= v.Size(e.ID())
	s.oldest.left(v.Since)
	s.entries.Delete(e.Key())
	if s.entries.Len() == 0 {
		x.spaces.Delete(s.Key())
	}
}

// WaitsSince moves the start of an entry's wait forward to t, in Unix seconds, because all its earlier
// writes are done.
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

// Space returns a namespace's share, or nil if there is none.
func (x *Index) Space(namespace string) *Space { return x.spaces.Get(namespace) }

// WalkSpaces visits the shares of about n namespaces, starting at a cursor. The index may change
// between two calls: see [hashtable.Table.Walk].
func (x *Index) WalkSpaces(cursor, n int, visit func(*Space)) (next int, done bool) {
	return x.spaces.Walk(cursor, n, visit)
}

// Name returns the namespace.
func (s *Space) Name() string { return s.Key() }

// Len returns the number of entries with a visible write.
func (s *Space) Len() int { return s.count }

// Bytes returns the sum of the sizes of the visible writes, as [record.Pending.Size] counts them.
func (s *Space) Bytes() int64 { return s.bytes }

// Newest returns the number of entries with a write, visible or not, and the sum of the sizes of their newest ones.
func (s *Space) Newest() (entries int, bytes int64) { return s.entries.Len(), s.newest }

// Walk visits about n entries with a visible write, starting at a cursor. The index may change between
// two calls: see [hashtable.Table.Walk].
func (s *Space) Walk(cursor, n int, visit func(*Entry)) (next int, done bool) {
	return s.entries.Walk(cursor, n, func(e *Entry) {
		if e.seq != 0 {
			visit(e)
		}
	})
}

// Oldest returns when the namespace's oldest entry began to wait, in Unix seconds. If exact is false,
// the oldest entry has left: the next oldest has waited no longer, and a [Search] finds when its wait
// began.
func (s *Space) Oldest() (since float64, exact bool) { return s.oldest.since, !s.oldest.stale }

// Search finds a namespace's oldest entry in steps. The index may change between two steps. A namespace
// has one search at a time.
type Search struct {
	space  *Space
	cursor int
	since  float64
}

// NewSearch begins a search, and cancels any earlier one.
func (s *Space) NewSearch() *Search {
	q := &Search{space: s, since: math.Inf(1)}
	s.oldest.found, s.oldest.stale = &q.since, false
	return q
}

// Step visits about n entries, and reports whether the search is over. Other readers of the index may
// run at the same time, except [Space.Oldest].
func (q *Search) Step(n int) (done bool) {
	o := &q.space.oldest
	if o.found != &q.since {
		return true // another search has begun
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
