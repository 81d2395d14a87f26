// Package numbered makes values that name their key and write, so that a reader can tell old from new and
// whole from torn. An [Entry] says which of them a read may show.
package numbered

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Value returns the n-th value of a key. Incompressible text fills it up to size bytes, so that it takes as
// much room on the disk.
func Value(key string, n, size int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	text := append(make([]byte, 0, size), key+":"+strconv.Itoa(n)+":"...)
	state := uint64(n)*0x9e3779b97f4a7c15 + uint64(len(key)) + 1
	for _, c := range []byte(key) {
		state = state*31 + uint64(c)
	}
	for len(text) < size {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		for bits, end := state, min(size, len(text)+10); len(text) < end; bits >>= 6 {
			text = append(text, digits[bits&63])
		}
	}
	return string(text)
}

// Number returns which of a key's values a text is, from 1 on. ok is false if it is none of them, or not
// whole.
func Number(key, text string) (n int, ok bool) {
	rest, ours := strings.CutPrefix(text, key+":")
	digits, _, numbered := strings.Cut(rest, ":")
	n, err := strconv.Atoi(digits)
	if !ours || !numbered || err != nil || n < 1 || text != Value(key, n, len(text)) {
		return 0, false
	}
	return n, true
}

// The errors of [Entry.Show] wrap one of these errors: they are the ways in which an answer to a read may be
// wrong.
var (
	// ErrNobodys means that nobody wrote the value: it is foreign or torn.
	ErrNobodys = errors.New("nobody wrote that")
	// ErrRefused means that the write was refused.
	ErrRefused = errors.New("it was refused")
	// ErrOlder means that a newer write was acknowledged or read before.
	ErrOlder = errors.New("a later one was acknowledged or read before")
	// ErrAbsent means that the read found no entry, and no delete explains this.
	ErrAbsent = errors.New("no delete explains that")
)

// Entry records the writes to a key that has one writer, and judges answers to reads by them. The
// writer numbers its writes from 1 on, and waits for each answer. A write without an answer may have
// been made or not. Write 0 is the state at the beginning: there is no entry. An Entry may be used
// concurrently.
type Entry struct {
	Namespace, Key string

	mu     sync.Mutex
	writes []write // by number
	floor  int     // the oldest write that a read may show if it begins now
	raised []raise // what floor was before
}

// raise says since when the floor is higher than before.
type raise struct {
	at     time.Time
	before int
}

// remembered is how far back [Entry.OldestAt] knows.
const remembered = time.Minute

type write struct{ deletes, refused bool }

// NewEntry returns an entry that nobody has written.
func NewEntry(namespace, key string) *Entry {
	return &Entry{Namespace: namespace, Key: key, writes: []write{{deletes: true}}}
}

// Path returns the entry's path in the memory API.
func (e *Entry) Path() string { return "/memory/" + e.Namespace + "/" + e.Key }

// Begin begins a write and returns its number.
func (e *Entry) Begin(deletes bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writes = append(e.writes, write{deletes: deletes})
	return len(e.writes) - 1
}

// Acknowledged records that the daemon has answered a write with 200.
func (e *Entry) Acknowledged(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.raise(n)
}

// raise raises the floor to a write that was acknowledged or shown. The caller holds mu.
func (e *Entry) raise(n int) {
	if n <= e.floor {
		return
	}
	now := time.Now()
	for len(e.raised) > 0 && now.Sub(e.raised[0].at) > remembered {
		e.raised = e.raised[1:]
	}
	e.raised = append(e.raised, raise{now, e.floor})
	e.floor = n
}

// Refused records that the daemon has refused a write and kept nothing of it.
func (e *Entry) Refused(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writes[n].refused = true
}

// Oldest returns the oldest write that a read may show if it begins now.
func (e *Entry) Oldest() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.floor
}

// OldestAt returns what Oldest has returned at a time up to a minute ago.
func (e *Entry) OldestAt(at time.Time) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.raised {
		if r.at.After(at) {
			return r.before
		}
	}
	return e.floor
}

// Forget permits reads to show older writes from now on, down to oldest: the later ones may have been lost.
func (e *Entry) Forget(oldest int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if oldest < e.floor {
		e.floor, e.raised = oldest, nil
	}
}

// Show judges the answer to a read: a value, or that there is no entry. oldest is the result of Oldest
// when the read began. Later reads may show nothing older.
func (e *Entry) Show(oldest int, value string, found bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, err := e.judge(oldest, value, found)
	if err == nil {
		e.raise(n)
	}
	return err
}

// Allows judges an answer as Show does, and permits later reads to show older writes all the same.
func (e *Entry) Allows(oldest int, value string, found bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := e.judge(oldest, value, found)
	return err
}

// judge returns the write that an answer shows. The caller holds mu.
func (e *Entry) judge(oldest int, value string, found bool) (n int, err error) {
	if !found {
		return e.absent(oldest)
	}
	n, whole := Number(e.Key, value)
	switch {
	case !whole:
		err = fmt.Errorf("shows %.60q: %w", value, ErrNobodys)
	case n >= len(e.writes) || e.writes[n].deletes:
		err = fmt.Errorf("shows write %d: %w", n, ErrNobodys)
	case e.writes[n].refused:
		err = fmt.Errorf("shows write %d: %w", n, ErrRefused)
	case n < oldest:
		err = fmt.Errorf("shows write %d, and write %d is the oldest that may be shown: %w", n, oldest, ErrOlder)
	}
	return n, err
}

// absent returns the first delete that explains why there is no entry. The caller holds mu.
func (e *Entry) absent(oldest int) (n int, _ error) {
	for n := oldest; n < len(e.writes); n++ {
		if e.writes[n].deletes && !e.writes[n].refused {
			return n, nil
		}
	}
	return 0, fmt.Errorf("is absent, and write %d is the oldest that may be shown: %w", oldest, ErrAbsent)
}

// Certain reports whether the entry exists. known is false if a write after the last acknowledged or
// read one may have been made. writes is the number of all writes, write 0 included.
func (e *Entry) Certain() (there, known bool, writes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.writes[e.floor+1:] {
		if !w.refused {
			return false, false, len(e.writes)
		}
	}
	return !e.writes[e.floor].deletes, true, len(e.writes)
}
