package trace

import "sync"

// writesKept bounds the remembered writes, at about 1 MiB. A write loses its context once the writes of
// writesKept other entries have followed.
const writesKept = 4096

// Writes remembers the contexts of writes that wait to be sent. Its methods may be called concurrently.
type Writes struct {
	mu   sync.Mutex // guards the fields below
	of   map[string]traced
	next int
	ring [writesKept]string
}

// traced is an entry's newest write that had a context.
type traced struct {
	seq     uint64
	context Context
}

// NewWrites returns an empty Writes.
func NewWrites() *Writes { return &Writes{of: make(map[string]traced)} }

// Note remembers the context of an entry's newest write. seq is 0 for a write that has no number yet.
func (w *Writes) Note(entry string, seq uint64, c Context) {
	if !c.Given() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.of[entry]; ok {
		if seq == 0 || seq > last.seq { // with two concurrent callers, the later number counts
			w.of[entry] = traced{seq, c}
		}
		return
	}
	if oldest := w.ring[w.next]; oldest != "" {
		delete(w.of, oldest)
	}
	w.ring[w.next] = entry
	w.of[entry] = traced{seq, c}
	w.next = (w.next + 1) % writesKept
}

// Of returns the context of an entry's write; none if it had none, or was forgotten. waited is true for
// a write that had a number: its caller has been answered.
func (w *Writes) Of(entry string, seq uint64) (c Context, waited bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.of[entry]
	if !ok || last.seq != 0 && last.seq != seq {
		return Context{}, false
	}
	return last.context, last.seq != 0
}

// Forget drops an entry's write with this context: the write is complete.
func (w *Writes) Forget(entry string, c Context) {
	if !c.Given() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[entry].context == c {
		delete(w.of, entry)
	}
}
