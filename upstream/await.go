package upstream

import (
	"context"
	"time"

	"github.com/botwired/botwired/journal"
)

// waiter waits for entries to be done with.
type waiter struct {
	outstanding map[journal.ID]uint64 // newest write at the time of the call
	progress    Progress
	done        chan struct{} // closed when nothing is outstanding
}

// Progress is how far a wait for pending writes has come, in entries.
type Progress struct {
	Settled, Dead, Pending int
}

// Flush returns when every write that was acknowledged before the call, of one
// namespace or, with "", of all, has settled or is dead: with no linger, but at
// upstream's pace. When ctx ends first, its error comes with what is left. It counts
// entries.
func (f *Flusher) Flush(ctx context.Context, namespace string) (settled, dead, pending int, err error) {
	select {
	case <-f.opts.Journal.Rebuilt():
	case <-ctx.Done():
		return 0, 0, f.opts.Journal.Stats().Pending, ctx.Err()
	}
	p, err := f.await(ctx, namespace, nil)
	return p.Settled, p.Dead, p.Pending, err
}

// await hurries the pending entries of a namespace, or of all, and waits for them,
// unless it is told that there is no use in it.
func (f *Flusher) await(ctx context.Context, namespace string, useless <-chan struct{}) (Progress, error) {
	w := f.expect(namespace)
	var err error
	select {
	case <-w.done:
	case <-useless:
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiters, w)
	w.progress.Pending = len(w.outstanding)
	if w.progress.Pending == 0 {
		err = nil
	}
	return w.progress, err
}

func (f *Flusher) expect(namespace string) *waiter {
	w := &waiter{outstanding: make(map[journal.ID]uint64), done: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, sp := range f.schedule.spaces {
		if namespace == "" || namespace == name {
			f.hurry(w, sp)
		}
	}
	if len(w.outstanding) == 0 {
		close(w.done)
		return w
	}
	f.waiters[w] = struct{}{}
	return w
}

// hurry makes w wait for a namespace's writes, and them for nothing but upstream.
// The caller holds mu.
func (f *Flusher) hurry(w *waiter, sp *space) {
	for _, t := range sp.tasks {
		if t.seq == 0 {
			continue // a sent mark that was left behind: nothing is pending
		}
		w.outstanding[t.id()] = t.seq
		t.hurry = true
		if !t.running {
			f.wait(t)
		}
	}
}

// tell lets those who wait for a write know that it is done with.
func (f *Flusher) tell(done journal.Write, dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.waiters {
		seq, ok := w.outstanding[done.ID]
		if !ok || seq > done.Seq {
			continue
		}
		delete(w.outstanding, done.ID)
		if dead {
			w.progress.Dead++
		} else {
			w.progress.Settled++
		}
		if len(w.outstanding) == 0 {
			close(w.done)
			delete(f.waiters, w)
		}
	}
}

// awaited reports whether somebody waits for the entry. The caller holds mu.
func (f *Flusher) awaited(id journal.ID) bool {
	for w := range f.waiters {
		if _, ok := w.outstanding[id]; ok {
			return true
		}
	}
	return false
}

// Attempts says how many requests for an entry's pending write failed since the last that
// did not, why the last one did, and when the next is due at the earliest: zero while one
// is under way. All is zero for an entry with nothing pending.
func (f *Flusher) Attempts(id journal.ID) (count int, last string, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.schedule.find(id)
	if t == nil {
		return 0, "", time.Time{}
	}
	if t.trouble != nil {
		count, last = t.trouble.attempts, t.trouble.text
	}
	if !t.running {
		next = f.epoch.Add(time.Duration(max(t.due, t.space.notBefore)))
	}
	return count, last, next
}

// Paused says why a namespace's pending writes are not let in, empty if they are.
func (f *Flusher) Paused(namespace string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sp := f.schedule.spaces[namespace]; sp != nil && len(sp.tasks) > 0 {
		return sp.paused
	}
	return ""
}

// Failing reports whether upstream is down as far as writes can tell, and why: an entry
// that fails while others do not is no outage (contract 16).
func (f *Flusher) Failing() (bool, string) {
	v := f.health.view()
	return v.down, v.text
}
