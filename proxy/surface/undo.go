package surface

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

var errUndoneMeanwhile = wire.Detail(http.StatusPreconditionFailed, "the entry is not as If-Match names it: it was written after you had looked at its versions. Look again")

// Undo writes an earlier state of an entry anew: that of a revision, or with 0 the one before the newest. It
// is a write as any other: durable before it is acknowledged, and later than the state that it
// undoes, for all hosts. It is on the condition that nobody has written the entry since the states
// were looked at.
func (s *Surface) Undo(ctx context.Context, q *memory.Request, to uint64) (memory.Result, error) {
	if s.opts.Revisions == nil {
		return memory.Result{}, errNoRevisions
	}
	doc := api.Undone{Namespace: q.ID.Namespace, Key: q.ID.Key}
	r, err := s.memory.Update(ctx, q, func(*cache.Item) (w journal.NewWrite, err error) {
		states, err := s.states(ctx, q.ID)
		if err != nil {
			return w, err
		}
		if q.Changed(revisionTag(&states[0])) {
			return w, errUndoneMeanwhile
		}
		earlier, err := earlierState(q.ID, states, to)
		if err != nil {
			return w, err
		}
		doc.Undone, doc.Now = states[0], *earlier
		if earlier.Value == nil {
			return journal.NewWrite{ID: q.ID, Op: journal.Delete}, nil
		}
		return memory.NewPut(q.ID, *earlier.Value), nil
	})
	if err != nil {
		return r, err
	}
	body, err := json.Marshal(&doc)
	r.SetBody(append(body, '\n'))
	return r, err
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
