package pending

import (
	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal/internal/record"
)

// Entry is an entry with at least one write that has not settled. Its size determines how much memory a
// pending write takes, so it stores earlier writes only if there are any.
type Entry struct {
	hashtable.Node[Entry]
	space     *Space
	seq       uint64 // of the visible write; 0 if there is none
	updatedAt float64
	past      *past // nil for an entry that was written once and has no invisible write
	bytes     int32
	listBytes int32
	sum       uint32
	op        record.Op
	// Sent says that the newest write, visible or not, may have been sent upstream.
	Sent bool
}

// past holds the fields that an entry needs only after a second write.
type past struct {
	since       float64
	createdAt   float64
	writtenAt   float64
	first, last *Write // writes that are not visible yet, in order
	afterDelete bool
	losesTies   bool
	fenced      bool
	conditional bool
}

// Write is a write that is not visible yet.
type Write struct {
	record.Pending
	entry *Entry
	next  *Write
}

// ID returns the entry's namespace and key.
func (e *Entry) ID() record.ID { return record.ID{Namespace: e.space.Key(), Key: e.Key()} }

// Visible returns the write that readers see; ok is false if there is none.
func (e *Entry) Visible() (v record.Pending, ok bool) {
	if e == nil || e.seq == 0 {
		return record.Pending{}, false
	}
	v = record.Pending{
		Seq: e.seq, UpdatedAt: e.updatedAt, Since: e.updatedAt, CreatedAt: e.updatedAt, WrittenAt: e.updatedAt,
		Bytes: e.bytes, ListBytes: e.listBytes, Sum: e.sum, Op: e.op,
	}
	if p := e.past; p != nil {
		v.Since, v.CreatedAt, v.WrittenAt = p.since, p.createdAt, p.writtenAt
		v.AfterDelete, v.LosesTies, v.Fenced, v.Conditional = p.afterDelete, p.losesTies, p.fenced, p.conditional
	}
	return v, true
}

// Latest returns the newest write, visible or not; ok is false if there is none.
func (e *Entry) Latest() (v record.Pending, ok bool) {
	if e != nil && e.past != nil && e.past.last != nil {
		return e.past.last.Pending, true
	}
	return e.Visible()
}

// Coming reports whether there is a write that is not visible yet.
func (e *Entry) Coming() bool { return e != nil && e.past != nil && e.past.first != nil }

// set makes v the visible write.
func (e *Entry) set(v record.Pending) {
	e.seq, e.updatedAt, e.op = v.Seq, v.UpdatedAt, v.Op
	e.bytes, e.listBytes, e.sum = v.Bytes, v.ListBytes, v.Sum
	once := v.Since == v.UpdatedAt && v.CreatedAt == v.UpdatedAt && v.WrittenAt == v.UpdatedAt &&
		!v.AfterDelete && !v.LosesTies && !v.Fenced && !v.Conditional
	if once && (e.past == nil || e.past.first == nil) {
		e.past = nil
		return
	}
	p := e.ensurePast()
	p.since, p.createdAt, p.writtenAt = v.Since, v.CreatedAt, v.WrittenAt
	p.afterDelete, p.losesTies, p.fenced, p.conditional = v.AfterDelete, v.LosesTies, v.Fenced, v.Conditional
}

// ensurePast returns the entry's past. If there is none, it makes one from the visible write.
func (e *Entry) ensurePast() *past {
	if e.past == nil {
		e.past = &past{since: e.updatedAt, createdAt: e.updatedAt, writtenAt: e.updatedAt}
	}
	return e.past
}

func (e *Entry) enqueue(w *Write) {
	e.Sent = false
	p := e.ensurePast()
	if p.last == nil {
		p.first = w
	} else {
		p.last.next = w
	}
	p.last = w
}

func (e *Entry) dequeue() {
	p := e.past
	if p.first = p.first.next; p.first == nil {
		p.last = nil
	}
}

func (e *Entry) coming(visit func(*Write)) {
	if e.past == nil {
		return
	}
	for w := e.past.first; w != nil; w = w.next {
		visit(w)
	}
}
