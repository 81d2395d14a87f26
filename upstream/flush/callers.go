package flush

import (
	"slices"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Result counts the outcomes of the entries that a flush or a drain waited for.
type Result struct {
	Settled, Dead, Pending int
	// Unanswered counts those of the pending ones that are inside their late window. Only a drain sets it.
	Unanswered int
}

// callers holds the calls that wait for writes to settle or become dead letters. A wait for a namespace
// takes a few numbers, however many entries it covers. callers is not safe for concurrent use.
type callers struct {
	flushes map[string][]*flushWait // by namespace; "" for all of them
	entries map[journal.ID][]*entryWait
}

// flushWait waits for all writes of a namespace up to a position.
type flushWait struct {
	namespace string
	upTo      uint64 // position of the newest write when the wait began
	result    Result // Pending counts the entries still waited for
	done      chan struct{}
}

// entryWait waits for one write of an entry.
type entryWait struct {
	id      journal.ID
	seq     uint64
	itself  bool // a newer write that settles does not count
	settled bool
	refusal *upstream.Error // with which upstream has refused the write for good; nil: none
	tried   chan struct{}   // holds one token: an attempt has ended, or the write may be held, and it is still pending
	done    chan struct{}
}

func (cs *callers) flush(namespace string, upTo uint64, entries int) *flushWait {
	w := &flushWait{namespace: namespace, upTo: upTo, result: Result{Pending: entries}, done: make(chan struct{})}
	if entries == 0 {
		close(w.done)
		return w
	}
	cs.flushes[namespace] = append(cs.flushes[namespace], w)
	return w
}

func (cs *callers) entry(id journal.ID, seq uint64, itself bool) *entryWait {
	w := &entryWait{id: id, seq: seq, itself: itself, tried: make(chan struct{}, 1), done: make(chan struct{})}
	cs.entries[id] = append(cs.entries[id], w)
	return w
}

// waitFor reports whether a caller waits for this single entry.
func (cs *callers) waitFor(id journal.ID) bool { return len(cs.entries[id]) > 0 }

// tried tells the callers that an attempt at an entry has ended, and that its write is still pending.
func (cs *callers) tried(id journal.ID) {
	for _, w := range cs.entries[id] {
		w.look()
	}
}

// held tells all callers, or with a namespace its own, that their writes may have to wait from now on.
func (cs *callers) held(namespace string) {
	for id, waits := range cs.entries {
		if namespace != "" && id.Namespace != namespace {
			continue
		}
		for _, w := range waits {
			w.look()
		}
	}
}

func (w *entryWait) look() {
	select {
	case w.tried <- struct{}{}:
	default:
	}
}

// completed tells the callers that an entry's writes up to seq are complete. from is the former
// position of its oldest pending write, and to the new one. If the write is dead, refusal says how upstream has
// refused it, if it has.
func (cs *callers) completed(id journal.ID, seq, from, to uint64, dead bool, refusal *upstream.Error) {
	cs.completedIn(id.Namespace, from, to, dead)
	cs.completedIn("", from, to, dead)
	for _, w := range slices.Clone(cs.entries[id]) {
		if w.seq <= seq {
			w.settled = !dead && (w.seq == seq || !w.itself) // guard 5.42
			if w.seq == seq {
				w.refusal = refusal
			}
			close(w.done)
			cs.leaveEntry(w)
		}
	}
}

func (cs *callers) completedIn(namespace string, from, to uint64, dead bool) {
	if from == 0 {
		return // the entry had nothing pending
	}
	finished := false
	for _, w := range cs.flushes[namespace] {
		if w.upTo < from || to <= w.upTo { // guard 18.3
			continue
		}
		w.result.Pending--
		if dead {
			w.result.Dead++
		} else {
			w.result.Settled++
		}
		if w.result.Pending == 0 {
			close(w.done)
			finished = true
		}
	}
	if finished {
		cs.keepFlushes(namespace, func(w *flushWait) bool { return w.result.Pending > 0 })
	}
}

// leaveFlush removes a wait that has not ended.
func (cs *callers) leaveFlush(w *flushWait) {
	cs.keepFlushes(w.namespace, func(other *flushWait) bool { return other != w })
}

func (cs *callers) keepFlushes(namespace string, keep func(*flushWait) bool) {
	left := slices.DeleteFunc(cs.flushes[namespace], func(w *flushWait) bool { return !keep(w) })
	if cs.flushes[namespace] = left; len(left) == 0 {
		delete(cs.flushes, namespace)
	}
}

// leaveEntry removes a wait that has not ended.
func (cs *callers) leaveEntry(w *entryWait) {
	left := slices.DeleteFunc(cs.entries[w.id], func(other *entryWait) bool { return other == w })
	if cs.entries[w.id] = left; len(left) == 0 {
		delete(cs.entries, w.id)
	}
}
