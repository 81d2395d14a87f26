package sim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"

	"github.com/botwired/botwired/journal"
)

// operation is one call of one caller on one entry. A LIST is one for each entry of
// its namespace.
type operation struct {
	id     journal.ID
	caller int
	did    action // put, remove, undo, bringBack, drop, retry, purge, foreign, get or list
	value  string // what a put puts, and what a drop drops; of foreign, empty for a delete
	wants  wish   // of a put or a remove
	// expected is what wants is about.
	expected shown
	wanted   uint64 // the version to which it undoes
	undone   state  // the state that an undo says that it has undone
	redone   state  // the state that an undo or a retry says that it has written again
	limit    int    // of a list
	code     int    // the answer's status; 0 if nobody knows whether the operation happened
	saw      string // the value in the answer to a get
	bytes    int    // the size in a list; -1 if the list lacks the entry
	veil     *veil  // of a list
	// sure says that upstream was reachable all the time: then a DELETE is answered 200
	// only if the entry existed (contract 11).
	sure         bool
	through      bool  // written through
	restored     bool  // a restoration may have written the state again
	seen         int64 // of foreign: the tick at which it is upstream
	call, answer int64 // ticks
	life         *life
}

// wish is what a write's condition wants of its entry.
type wish uint8

const (
	wantsNothing wish = iota
	wantsNone         // that it does not exist
	wantsSame         // that it is as expected
	wantsOther        // that it is not
)

func (o operation) String() string {
	condition := [...]string{"", " if absent", " if " + brief(o.expected.value), " if not " + brief(o.expected.value)}[o.wants]
	switch {
	case o.did == foreign:
		return "another host: " + brief(o.value)
	case o.code == 0 && o.did != put:
		return o.did.String() + condition + ": not known"
	case o.code == 0:
		return fmt.Sprintf("put %s%s: not known", brief(o.value), condition)
	case o.did == put:
		return fmt.Sprintf("put %s%s: %d", brief(o.value), condition, o.code)
	case o.did == remove:
		return fmt.Sprintf("remove%s: %d", condition, o.code)
	case o.did == undo || o.did == bringBack || o.did == retry:
		return fmt.Sprintf("%s: %d, from %s to %s", o.did, o.code, brief(o.undone.String()), brief(o.redone.String()))
	case o.did == list && o.bytes < 0:
		return "list: absent"
	case o.did == list:
		return fmt.Sprintf("list: %d bytes", o.bytes)
	}
	return fmt.Sprintf("%s: %d %s", o.did, o.code, brief(o.saw))
}

// brief shortens a value that is long only to have a size of its own.
func brief(value string) string {
	name := strings.TrimRight(value, ".")
	if name == value {
		return value
	}
	return fmt.Sprintf("%s (%d bytes)", name, len(value))
}

// history holds the callers' operations and the answers. Its clock only orders: a tick
// later is later, and nothing else.
type history struct {
	clock atomic.Int64
	// busy says that, in real time, a call has taken as long as callers wait for upstream.
	// On such a machine upstream was not sure to answer in time.
	busy atomic.Bool

	mu         sync.Mutex
	operations []operation
}

func (h *history) tick() int64 { return h.clock.Add(1) }

func (h *history) add(o operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, o)
}

// known returns the history without the operations that did not happen. A life that
// crashed went on for a while after the moment from which the next life begins, and its
// answers of that while reached nobody. A read of that while did not happen. A write
// may have happened: before the file system was cloned, or never.
//
// A read with the answer 503 says nothing about its entry, but something about
// upstream: away are the reads that got a 503 although upstream was reachable (contract
// 9).
func (h *history) known() (out, away []operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.operations {
		o.sure = o.sure && !h.busy.Load()
		if l := o.life; l != nil && l.clone != nil && o.answer > l.doomedAt {
			if !o.did.writes() || o.call > l.clonedAt {
				continue
			}
			o.code, o.answer = 0, l.clonedAt
		}
		switch {
		case o.code != http.StatusServiceUnavailable:
			out = append(out, o)
		case o.sure:
			away = append(away, o)
		}
	}
	for i := range out {
		if out[i].did == foreign {
			out[i].answer = h.lastSight(&out[i], out)
		}
	}
	return out, away
}

// lastSight returns the last tick at which another host's write may become visible: once a caller's later write is answered, it
// no longer can, unless that write is dropped.
func (h *history) lastSight(theirs *operation, all []operation) int64 {
	end, dropped := h.clock.Load()+1, make(map[string]bool)
	for _, o := range all {
		if o.id == theirs.id && o.did == drop {
			dropped[o.value] = true
		}
	}
	for _, o := range all {
		writes := o.did == put && !dropped[o.value] || o.did == remove || o.did == undo || o.did == bringBack
		if writes && o.id == theirs.id && o.call > theirs.seen && o.code == http.StatusOK {
			end = min(end, o.answer)
		}
	}
	return end
}

// until cuts a history off at a tick, as a crash does.
func until(operations []operation, end int64) []operation {
	var out []operation
	for _, o := range operations {
		if o.call > end {
			continue
		}
		if o.answer > end {
			if !o.did.writes() {
				continue
			}
			o.code, o.answer = 0, end
		}
		out = append(out, o)
	}
	return out
}

// byEntry splits a history by entry: each entry is linearizable for itself (contract
// 5).
func byEntry(operations []operation) map[journal.ID][]operation {
	out := make(map[journal.ID][]operation)
	for _, o := range operations {
		out[o.id] = append(out[o.id], o)
	}
	return out
}

func toPorcupine(operations []operation) []porcupine.Operation {
	out := make([]porcupine.Operation, len(operations))
	for i, o := range operations {
		out[i] = porcupine.Operation{ClientId: o.caller, Input: o, Call: o.call, Return: o.answer}
	}
	return out
}

// excerpt prints the end of a history in the order of calls.
func excerpt(operations []operation) string {
	const shown = 30
	operations = slices.SortedFunc(slices.Values(operations), func(a, b operation) int { return cmp.Compare(a.answer, b.answer) })
	operations = operations[max(0, len(operations)-shown):]
	slices.SortFunc(operations, func(a, b operation) int { return cmp.Compare(a.call, b.call) })
	var b strings.Builder
	for _, o := range operations {
		fmt.Fprintf(&b, "  %6d to %6d  caller %2d  %s\n", o.call, o.answer, o.caller, o)
	}
	return b.String()
}
