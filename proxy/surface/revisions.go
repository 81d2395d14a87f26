package surface

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

const (
	revisionsPath = "revisions"
	// deadState is the state of a version that upstream has refused.
	deadState = "dead"
)

// revisionTag returns the entity tag of the write that made a state. It stays the same when the write
// settles.
func revisionTag(d *api.Revision) string {
	if d.Here && d.Seq != nil {
		return memory.WriteTag(*d.Seq, d.Text())
	}
	switch {
	case d.Revision == nil && d.Value == nil:
		return `"absent"`
	case d.Revision == nil:
		return `"shown-` + strconv.FormatFloat(d.UpdatedAt, 'f', 6, 64) + `"`
	}
	return `"revision-` + strconv.FormatUint(*d.Revision, 10) + `"`
}

func isWrite(d *api.Revision, w *journal.Write) bool {
	return d.Here && d.Seq != nil && *d.Seq == w.Seq && d.Op == w.Op.String() && d.Text() == w.Value
}

// listRevisions lists the states of an entry, newest first. The ETag names the newest one.
func (s *Surface) listRevisions(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	id := p.Entry()
	if p.Err != nil {
		return p.Err
	}
	var now *cache.Item
	if s.ownVersions {
		now, _ = s.memory.Present(r.Context(), id) // nil if upstream cannot be asked
	}
	states, err := s.states(r.Context(), id, now)
	if err != nil {
		return err
	}
	w.Header()["Etag"] = []string{revisionTag(&states[0])}
	return writeDocument(w, http.StatusOK, api.Revisions{Namespace: id.Namespace, Key: id.Key, Revisions: states})
}

// states returns the states of an entry, the present one first, with its pending write. There is at least
// one. now is the present state as a GET shows it; nil if it is unknown.
func (s *Surface) states(caller context.Context, id journal.ID, now *cache.Item) ([]api.Revision, error) {
	s.memory.Use(id.Namespace)
	written, pending, err := s.journal.Newest(id)
	if err != nil {
		return nil, err
	}
	var states []api.Revision
	err = s.memory.Ask(caller, id, func(ctx context.Context) (err error) {
		states, err = s.opts.Revisions(ctx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	if pending && !slices.ContainsFunc(states, func(d api.Revision) bool { return isWrite(&d, &written) }) {
		states = slices.Insert(states, 0, s.pendingState(&written))
	}
	known := now != nil && s.ownVersions // an engine that keeps versions lists the present one first
	if len(states) == 0 && (!known || now.Body == nil) {
		return nil, s.noStates(id)
	}
	if !known {
		return states, nil
	}
	return withPresent(states, now)
}

func (s *Surface) noStates(id journal.ID) error {
	why := "it was never written here, and upstream has not shown it"
	if at := s.journal.History.Since(); at != 0 {
		why = "it was not written here since " + unixTime(at).Format(time.RFC3339) + ", and older versions were removed for room (history.disk)"
	}
	return wire.Detail(http.StatusNotFound, fmt.Sprintf("no version of %s is known: %s", id, why))
}

func (s *Surface) pendingState(w *journal.Write) api.Revision {
	d := api.Revision{
		State: "pending", Op: journal.Delete.String(), UpdatedAt: w.UpdatedAt, Host: s.opts.Host, Here: true, Seq: &w.Seq, Author: w.Author,
	}
	if w.Op == journal.Put {
		d.Op, d.Value, d.Bytes = w.Op.String(), &w.Value, wire.CodePoints(w.Value)
	}
	return d
}

var errUndoneMeanwhile = wire.Detail(http.StatusPreconditionFailed, "the entry is not as If-Match names it: it was written after you had looked at its versions. Look again")

// Revision names a version of an entry: by its revision, or by the number of this daemon's write, which
// may have no revision upstream. The zero Revision names none.
type Revision struct {
	number uint64
	write  bool
}

func (r Revision) String() string {
	if r.write {
		return "w" + strconv.FormatUint(r.number, 10)
	}
	return strconv.FormatUint(r.number, 10)
}

func (r Revision) names(d *api.Revision) bool {
	number := d.Revision
	if r.write {
		number = d.Seq
	}
	return number != nil && *number == r.number && (d.Here || !r.write)
}

// Undo writes an earlier state of an entry again: the state that to names, or without a name the state
// before the newest. It is a write like any other: durable before it is acknowledged, and for all hosts later
// than the state that it undoes. It fails if somebody has written the entry since the caller looked at
// its states.
func (s *Surface) Undo(ctx context.Context, q *memory.Request, to Revision) (memory.Result, error) {
	doc := api.Undone{Namespace: q.ID.Namespace, Key: q.ID.Key}
	r, err := s.memory.Update(ctx, q, func(now *cache.Item) (w journal.NewWrite, err error) {
		states, err := s.states(ctx, q.ID, now)
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

// earlierState returns the state that to names, or without a name the state before the newest. It skips
// writes that upstream has refused, unless to names one.
func earlierState(id journal.ID, states []api.Revision, to Revision) (*api.Revision, error) {
	given := to != Revision{}
	found := slices.IndexFunc(states, func(d api.Revision) bool { return given && to.names(&d) })
	if !given && len(states) > 1 {
		found = slices.IndexFunc(states[1:], func(d api.Revision) bool { return d.State != deadState }) + 1
	}
	switch {
	case given && found < 0:
		return nil, wire.Detail(http.StatusNotFound, fmt.Sprintf("revision %s of %s is not kept, or never was", to, id))
	case !given && found <= 0:
		return nil, wire.Detail(http.StatusConflict, fmt.Sprintf("nothing to undo: no version of %s before this one is kept", id))
	case found == 0, states[0].Value == nil && states[found].Value == nil:
		return nil, wire.Detail(http.StatusConflict, fmt.Sprintf("nothing to undo: %s is as that version has it", id))
	}
	return &states[found], nil
}
