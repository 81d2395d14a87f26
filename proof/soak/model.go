package main

import (
	"fmt"
	"sync"

	"github.com/botwired/botwired/proof/numbered"
)

// model knows which answers about its keys may be true. Each key has one writer, which
// numbers its writes from 1 on and waits for each answer.
type model struct {
	keys []*entry

	mu     sync.Mutex
	count  int
	wrongs []string // the first ones
}

// shownAtMost bounds how many wrong answers are kept and shown. The soak ends there.
const shownAtMost = 20

// entry is the writes to a key, as far as its writer knows them. Write 0 is its absence at the beginning.
type entry struct {
	namespace, key string

	mu     sync.Mutex
	writes []write // by number
	floor  int     // no read that begins now may show an older write
}

// write is a write as its writer knows it.
type write struct{ deletes, refused bool }

func newEntry(namespace, key string) *entry {
	return &entry{namespace: namespace, key: key, writes: []write{{deletes: true}}}
}

func (e *entry) path() string { return "/memory/" + e.namespace + "/" + e.key }

// begin begins a write and returns its number.
func (e *entry) begin(deletes bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writes = append(e.writes, write{deletes: deletes})
	return len(e.writes) - 1
}

// acknowledged notes that the daemon has answered a write with 200.
func (e *entry) acknowledged(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.floor = max(e.floor, n)
}

// refused notes that the daemon has kept nothing of a write.
func (e *entry) refused(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writes[n].refused = true
}

// oldest is the oldest write that a read may show if it begins now.
func (e *entry) oldest() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.floor
}

// show judges the answer to a read, a value or an absence. oldest is the entry's when the
// read began. Later reads show nothing older.
func (e *entry) show(oldest int, value string, found bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !found {
		return e.absent(oldest)
	}
	n, whole := numbered.Number(e.key, value)
	switch {
	case !whole:
		return fmt.Errorf("shows a value that nobody wrote: %.60q", value)
	case n >= len(e.writes) || e.writes[n].deletes:
		return fmt.Errorf("shows write %d, which nobody made", n)
	case e.writes[n].refused:
		return fmt.Errorf("shows write %d, which was refused", n)
	case n < oldest:
		return fmt.Errorf("shows write %d, and %d was acknowledged or read before", n, oldest)
	}
	e.floor = max(e.floor, n)
	return nil
}

// absent finds a write by which the entry may be absent. The caller holds mu.
func (e *entry) absent(oldest int) error {
	for n := oldest; n < len(e.writes); n++ {
		if e.writes[n].deletes && !e.writes[n].refused {
			e.floor = max(e.floor, n)
			return nil
		}
	}
	return fmt.Errorf("is absent, and write %d was acknowledged or read before", oldest)
}

// certain reports whether the entry is certainly there, or certainly absent, as far as
// all writes up to the last one are known; writes is their number.
func (e *entry) certain() (there, known bool, writes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.writes[e.floor+1:] {
		if !w.refused {
			return false, false, len(e.writes)
		}
	}
	return !e.writes[e.floor].deletes, true, len(e.writes)
}

// wrong notes an answer that cannot be true.
func (m *model) wrong(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count++; m.count <= shownAtMost {
		m.wrongs = append(m.wrongs, fmt.Sprintf(format, args...))
	}
}

func (m *model) wrongCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}
