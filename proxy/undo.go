package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// undoPath is where an undo is, under surfacePrefix.
const undoPath = "undo"

// undoer writes an earlier state of an entry anew. It is a write as any other: durable before it is
// acknowledged, and later than the state that it undoes, for all hosts. It is on the condition
// that nobody has written the entry since the states were looked at.
type undoer struct{ past }

var errUndoneMeanwhile = unmet("the entry is not as If-Match names it: it was written after you had looked at its versions. Look again")

var errUndoOfAnother = wire.Detail(http.StatusBadRequest, "an undo takes If-Match, and no If-None-Match")

// answer undoes the newest write, or all since the revision that the parameter to names.
func (u undoer) answer(w http.ResponseWriter, r *http.Request, c *call) error {
	if err := require(r, http.MethodPost, "namespace", "key", "to"); err != nil {
		return err
	}
	id, err := entryParameter(r)
	if err != nil {
		return err
	}
	to, err := revisionParameter(r)
	if err != nil {
		return err
	}
	wanted, err := parseConditions(r.Header)
	if err != nil {
		return err
	}
	if wanted.noneMatch.given {
		return errUndoOfAnother
	}
	if u.revisions == nil {
		return errNoRevisions
	}
	c.enter(u.memory, putEntry, id.Namespace)
	for {
		err := u.try(w, r, id, to, wanted.match, c)
		if !isOvertaken(err) {
			return err
		}
		if err := r.Context().Err(); err != nil {
			return err
		}
	}
}

// try writes the earlier state if nobody writes the entry between the look at it and the write.
func (u undoer) try(w http.ResponseWriter, r *http.Request, id journal.ID, to uint64, wanted tagList, c *call) error {
	item, err := look(u.memory, id) // first, so that it is not newer than the states
	if err != nil {
		return err
	}
	states, err := u.states(r.Context(), id)
	if err != nil {
		return err
	}
	if wanted.given && !wanted.has(revisionTag(&states[0]), false) {
		return errUndoneMeanwhile
	}
	earlier, err := earlierState(id, states, to)
	if err != nil {
		return err
	}
	body, err := json.Marshal(api.Undone{Namespace: id.Namespace, Key: id.Key, Undone: states[0], Now: *earlier})
	if err != nil {
		return err
	}
	write := journal.NewWrite{ID: id, Op: journal.Delete}
	if earlier.Value != nil {
		observed(w).put(*earlier.Value)
		write = newPut(id, *earlier.Value)
	}
	err = u.write(w, r, write, asItIs(item), append(body, '\n'), c)
	if isUnmet(err) { // another write was faster
		return errOvertaken
	}
	return err
}

// write carries the undo out as a PUT or a DELETE of an agent's would be.
func (u undoer) write(
	w http.ResponseWriter, r *http.Request, write journal.NewWrite, unchanged conditions, body []byte, c *call,
) error {
	if carriesThrough(u.memory, &write, r, unchanged, c) {
		written, settled, err := u.writeThrough(r.Context(), w, write, unchanged, c)
		if err == nil {
			acknowledgeThrough(w, c, written, settled, body)
		}
		return err
	}
	written, err := u.storeIf(r.Context(), write, unchanged)
	if err == nil {
		u.acknowledge(w, r, c, written, "", body)
	}
	return err
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
		return nil, wire.Detail(http.StatusNotFound, fmt.Sprintf("upstream does not keep revision %d of %s, or never had it", to, id))
	case found == len(states):
		return nil, wire.Detail(http.StatusConflict, fmt.Sprintf("nothing to undo: upstream keeps no version of %s before this one", id))
	case found == 0, states[0].Value == nil && states[found].Value == nil:
		return nil, wire.Detail(http.StatusConflict, fmt.Sprintf("nothing to undo: %s is as that version has it", id))
	}
	return &states[found], nil
}

// revisionParameter is 0 if it is not given.
func revisionParameter(r *http.Request) (uint64, error) {
	if !r.URL.Query().Has("to") {
		return 0, nil
	}
	text := r.URL.Query().Get("to")
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil || revision == 0 {
		return 0, wire.Detail(http.StatusBadRequest, fmt.Sprintf("to=%.40q: expected the number of a revision", text))
	}
	return revision, nil
}
