package proxy

import (
	"context"
	"fmt"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

var errUndoneMeanwhile = unmet("the entry is not as If-Match names it: it was written after you had looked at its versions. Look again")

// undoStates are the states of an entry around an undo: as it was until then, and the earlier one that
// has been written anew.
type undoStates struct{ Undone, Now api.Revision }

// Undo writes an earlier state of an entry anew: that of a revision, or with 0 the one before the newest. It
// is a write as any other: durable before it is acknowledged, and later than the state that it
// undoes, for all hosts. It is on the condition that nobody has written the entry since the states
// were looked at.
func (m *memory) Undo(ctx context.Context, q *Request, to uint64) (r Result, states undoStates, err error) {
	for {
		r, states, err = m.tryUndo(ctx, q, to)
		if !isOvertaken(err) {
			return r, states, err
		}
		if err := ctx.Err(); err != nil {
			return Result{}, undoStates{}, err
		}
	}
}

// tryUndo writes the earlier state if nobody writes the entry between the look at it and the write.
func (m *memory) tryUndo(ctx context.Context, q *Request, to uint64) (r Result, around undoStates, err error) {
	item, err := m.look(q.ID) // first, so that it is not newer than the states
	if err != nil {
		return Result{}, undoStates{}, err
	}
	states, err := m.states(ctx, q.ID)
	if err != nil {
		return Result{}, undoStates{}, err
	}
	if q.match.given && !q.match.has(revisionTag(&states[0]), false) {
		return Result{}, undoStates{}, errUndoneMeanwhile
	}
	earlier, err := earlierState(q.ID, states, to)
	if err != nil {
		return Result{}, undoStates{}, err
	}
	write := journal.NewWrite{ID: q.ID, Op: journal.Delete}
	if earlier.Value != nil {
		write = newPut(q.ID, *earlier.Value)
	}
	r, err = m.write(ctx, q, write, asItIs(item))
	if isUnmet(err) { // another write was faster
		err = errOvertaken
	}
	return r, undoStates{states[0], *earlier}, err
}

// earlierState is the state of a revision, or with 0 the one before the newest.
func earlierState(id journal.ID, states []api.Revision, to uint64) (*api.Revision, error) {
	found := 1
	if to != 0 {
		for found = 0; found < len(states); found++ {
			if states[found].Revision != nil && *states[found].Revision == to {
				break
			}
		}
	}
	switch {
	case to != 0 && found == len(states):
		return nil, wire.Detail(statusNotFound, fmt.Sprintf("upstream does not keep revision %d of %s, or never had it", to, id))
	case found == len(states):
		return nil, wire.Detail(statusConflict, fmt.Sprintf("nothing to undo: upstream keeps no version of %s before this one", id))
	case found == 0, states[0].Value == nil && states[found].Value == nil:
		return nil, wire.Detail(statusConflict, fmt.Sprintf("nothing to undo: %s is as that version has it", id))
	}
	return &states[found], nil
}
