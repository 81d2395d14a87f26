package surface

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

const revisionsPath = "revisions"

// Revision is a state of an entry that upstream has kept.
type Revision struct {
	Number    uint64  // upstream's number; it grows within an entry
	Deleted   bool    // a delete made this state
	Value     string  // empty for a delete
	CreatedAt float64 // Unix seconds: the first put, or the first after a delete
	WrittenAt float64 // Unix seconds: when the writer wrote the state
	Host      string  // the name of the writer's host; "" if unknown
	Seq       uint64  // the write's number at its host; 0 if it has none
}

// Revisions is an upstream that keeps earlier states of entries. Its methods may be called concurrently.
type Revisions interface {
	// Revisions returns the states of an entry that upstream keeps, newest first. There are none if upstream
	// never held the entry, or no longer knows of it. An error has a method RetryAfter() time.Duration if
	// upstream cannot be asked now.
	Revisions(ctx context.Context, id journal.ID) ([]Revision, error)
	// Host returns the name under which this daemon writes: see [Revision.Host].
	Host() string
}

var errNoRevisions = wire.Detail(http.StatusNotImplemented,
	"upstream keeps no earlier versions of an entry: BotWire does not. NATS does, with an upstream.url that begins with nats://")

func setValue(d *api.Revision, value string) {
	d.Op, d.Value, d.Bytes = journal.Put.String(), &value, wire.CodePoints(value)
}

// revisionTag returns the entity tag of the write that made a state. It stays the same when the write
// settles.
func revisionTag(d *api.Revision) string {
	if d.Here && d.Seq != nil {
		return memory.WriteTag(*d.Seq, d.Text())
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
	if s.opts.Revisions == nil {
		return errNoRevisions
	}
	states, err := s.states(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header()["Etag"] = []string{revisionTag(&states[0])}
	return writeDocument(w, http.StatusOK, api.Revisions{Namespace: id.Namespace, Key: id.Key, Revisions: states})
}

// states returns the states of an entry, newest first, with its pending write. There is at least one.
func (s *Surface) states(caller context.Context, id journal.ID) ([]api.Revision, error) {
	s.memory.Use(id.Namespace)
	written, pending, err := s.journal.Newest(id)
	if err != nil {
		return nil, err
	}
	var kept []Revision
	err = s.memory.Ask(caller, id, func(ctx context.Context) (err error) {
		kept, err = s.opts.Revisions.Revisions(ctx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	var states []api.Revision
	for i := range kept {
		states = append(states, s.settledState(&kept[i]))
	}
	if pending && !slices.ContainsFunc(states, func(d api.Revision) bool { return isWrite(&d, &written) }) {
		states = slices.Insert(states, 0, s.pendingState(&written))
	}
	if len(states) == 0 {
		return nil, wire.NotFound(id.Namespace, id.Key)
	}
	return states, nil
}

func (s *Surface) settledState(r *Revision) api.Revision {
	d := api.Revision{
		Revision: &r.Number, State: "settled", Op: journal.Delete.String(),
		UpdatedAt: r.WrittenAt, Host: r.Host, Here: r.Host == s.opts.Revisions.Host(),
	}
	if r.Seq != 0 {
		d.Seq = &r.Seq
	}
	if !r.Deleted {
		d.CreatedAt = &r.CreatedAt
		setValue(&d, r.Value)
	}
	return d
}

func (s *Surface) pendingState(w *journal.Write) api.Revision {
	d := api.Revision{
		State: "pending", Op: journal.Delete.String(), UpdatedAt: w.UpdatedAt, Host: s.opts.Revisions.Host(), Here: true, Seq: &w.Seq,
	}
	if w.Op == journal.Put {
		setValue(&d, w.Value)
	}
	return d
}

var errUndoneMeanwhile = wire.Detail(http.StatusPreconditionFailed, "the entry is not as If-Match names it: it was written after you had looked at its versions. Look again")

// Undo writes an earlier state of an entry again: the state of revision to, or with 0 the state before
// the newest. It is a write like any other: durable before it is acknowledged, and for all hosts later
// than the state that it undoes. It fails if somebody has written the entry since the caller looked at
// its states.
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

// earlierState returns the state of revision to, or with 0 the state before the newest.
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
