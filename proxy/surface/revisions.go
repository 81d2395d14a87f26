package surface

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
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
	// deadState is the state of a version that upstream has refused.
	deadState = "dead"
	// unsealedState is the state of a version from before the namespace was sealed, when anybody could write it.
	unsealedState = "unsealed"
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

func (s *Surface) listRevisions(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	id := p.Entry()
	if p.Err != nil {
		return p.Err
	}
	doc, _, err := s.states(r.Context(), id, nil)
	s.AgentState.SetHeader(w.Header(), id.Namespace)
	if err != nil {
		return err
	}
	tag := []string{revisionTag(&doc.Revisions[0])}
	w.Header()["Etag"], w.Header()[wire.OwnETag] = tag, tag
	return writeDocument(w, http.StatusOK, doc)
}

// states returns the states of an entry that are kept here or upstream, each once: the present one first, then
// the newest first. There is at least one. missing says why those upstream could not be asked for. now is the
// present state as a GET shows it; nil if the caller has not asked.
func (s *Surface) states(caller context.Context, id journal.ID, now *cache.Item) (doc *api.Revisions, missing, err error) {
	s.memory.Use(id.Namespace)
	if now == nil {
		now, missing = s.memory.Present(caller, id)
	}
	here, err := s.statesHere(id) // before upstream's, so that a write that settles meanwhile is in one of them
	if err != nil {
		return nil, nil, err
	}
	var there []api.Revision
	unknown := missing // why the present state is
	if s.opts.Revisions == nil {
		missing = nil
	} else if missing == nil {
		missing = s.memory.Ask(caller, id, func(ctx context.Context) (err error) {
			there, err = s.opts.Revisions(ctx, id)
			return err
		})
	}
	doc = &api.Revisions{Namespace: id.Namespace, Key: id.Key, Complete: missing == nil}
	if missing != nil {
		there = nil // an error may come with some
		_, unavailable := memory.RetryAfter(missing)
		if !unavailable || len(here) == 0 { // guard 9.66
			return nil, nil, missing
		}
		doc.Why = fmt.Sprintf("the states that upstream keeps are missing: %v", missing)
	}
	all := together(here, there, s.journal.History.Since() != 0)
	present := slices.IndexFunc(all, func(d api.Revision) bool { return d.State == string(journal.PastPending) })
	switch {
	case present >= 0:
	case len(there) > 0:
		present = slices.IndexFunc(all, func(d api.Revision) bool { return d.Revision != nil })
	case now != nil && (now.Body != nil || len(all) > 0):
		if all, present, err = withPresent(all, now); err != nil {
			return nil, nil, err
		}
	case len(all) == 0:
		return nil, nil, s.noStates(id)
	case all[0].State == unsealedState && unknown != nil: // guard 23.49
		return nil, nil, unknown
	}
	if present > 0 {
		first := all[present]
		all = slices.Insert(slices.Delete(all, present, present+1), 0, first)
	}
	doc.Revisions = all
	return doc, missing, nil
}

func (s *Surface) noStates(id journal.ID) error {
	why := "it was never written here, and upstream has not shown it"
	if at := s.journal.History.Since(); at != 0 {
		why = "it was not written here since " + unixTime(at).Format(time.RFC3339) + ", and older versions were removed for room (history.disk)"
	}
	return wire.Detail(http.StatusNotFound, fmt.Sprintf("no version of %s is known: %s", id, why))
}

var errUndoneMeanwhile = wire.Detail(http.StatusPreconditionFailed, "the entry is not as If-Match names it: it was written after you had looked at its versions. Look again")

// Revision names a state of an entry: by its revision, or by its number in this daemon's journal. The zero
// Revision names none.
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
	return number != nil && *number == r.number
}

// looksForUndo bounds how often an undo looks at an entry whose newest write a GET does not show, because another
// host has written later.
const looksForUndo = 100

// Undo writes an earlier state of an entry again: the state that to names, or without a name the state
// before the newest. It is a write like any other: durable before it is acknowledged, and for all hosts later
// than the state that it undoes. It fails if somebody has written the entry since the caller looked at
// its states.
func (s *Surface) Undo(ctx context.Context, q *memory.Request, to Revision) (memory.Result, error) {
	undone := api.Undone{Namespace: q.ID.Namespace, Key: q.ID.Key}
	looks := 0
	r, err := s.memory.Update(ctx, q, func(now *cache.Item) (w journal.NewWrite, err error) {
		doc, missing, err := s.states(ctx, q.ID, now)
		if err != nil {
			return w, err
		}
		states := doc.Revisions
		if looks++; isLater(&states[0], now) && looks <= looksForUndo {
			return w, journal.ErrChanged // else it might undo another state than it says: Update looks again
		}
		if q.Changed(revisionTag(&states[0])) {
			return w, errUndoneMeanwhile
		}
		earlier, err := earlierState(q.ID, states, to, missing)
		if err != nil {
			return w, err
		}
		undone.Undone, undone.Now = states[0], *earlier
		if earlier.Value == nil {
			return journal.NewWrite{ID: q.ID, Op: journal.Delete}, nil
		}
		return memory.NewPut(q.ID, *earlier.Value), nil
	})
	if err != nil {
		return r, err
	}
	body, err := json.Marshal(&undone)
	r.SetBody(append(body, '\n'))
	return r, err
}

// isLater reports whether a pending state was written after a GET showed now.
func isLater(d *api.Revision, now *cache.Item) bool {
	value, _, exists, err := memory.Shown(now)
	return err == nil && d.State == string(journal.PastPending) && (exists != (d.Value != nil) || value != d.Text()) // guard 13.72
}

// earlierState returns the state that to names, or without a name the state before the newest. It skips
// writes that upstream has refused, unless to names one. missing says why states may be missing.
func earlierState(id journal.ID, states []api.Revision, to Revision, missing error) (*api.Revision, error) {
	given := to != Revision{}
	found := slices.IndexFunc(states, func(d api.Revision) bool { return given && to.names(&d) })
	if !given && len(states) > 1 {
		found = slices.IndexFunc(states[1:], func(d api.Revision) bool { return d.State != deadState }) + 1
	}
	switch {
	case missing != nil && (found < 0 || !given && found == 0): // guard 9.67
		return nil, missing
	case given && found < 0:
		return nil, wire.Detail(http.StatusNotFound, fmt.Sprintf("revision %s of %s is not kept, or never was", to, id))
	case !given && found <= 0:
		return nil, wire.Detail(http.StatusConflict, fmt.Sprintf("nothing to undo: no version of %s before this one is kept", id))
	case !given && states[0].Gap != "": // guard 13.86
		return nil, wire.Detail(http.StatusConflict, fmt.Sprintf("nothing is undone: the version of %s before this one %s. "+
			"Name an older one: --to REVISION with botwired undo, to over HTTP", id, gapTexts[states[0].Gap]))
	case !given && states[found].State == unsealedState: // guard 23.44
		return nil, wire.Detail(http.StatusConflict, fmt.Sprintf("nothing to undo: the version of %s before this one is from before the namespace "+
			"was sealed, when anybody could write it. To have it all the same, name its revision", id))
	case found == 0, states[0].Value == nil && states[found].Value == nil:
		return nil, wire.Detail(http.StatusConflict, fmt.Sprintf("nothing to undo: %s is as that version has it", id))
	}
	return &states[found], nil
}

// gapTexts says why the version before one is missing.
var gapTexts = map[string]string{
	string(journal.GapForgotten): "was, or may have been, removed for room (history.disk)",
	string(journal.GapDamaged):   "is damaged",
}

const versionsListed = 100

func (s *Surface) statesHere(id journal.ID) ([]api.Revision, error) {
	kept, err := s.journal.History.Of(id, versionsListed)
	if err != nil {
		return nil, err
	}
	before, err := s.journal.History.Before(id.Namespace)
	states := make([]api.Revision, len(kept))
	for i := range kept {
		if states[i] = s.stateOf(&kept[i]); kept[i].Seq <= before && states[i].State != deadState {
			states[i].State = unsealedState
		}
	}
	return states, err
}

func (s *Surface) stateOf(p *journal.Past) api.Revision {
	d := api.Revision{State: string(p.State), Op: p.Op.String(), UpdatedAt: p.WrittenAt, Author: p.Author, Host: p.Host, Seq: &p.Seq,
		Gap: string(p.Gap), Follows: p.Follows}
	if p.State == journal.PastCurrent {
		d.State = string(journal.PastSettled)
	}
	if p.Op == journal.Put {
		d.Value, d.Bytes = &p.Value, wire.CodePoints(p.Value)
	}
	if !p.Shown {
		d.Here, d.Host = true, s.opts.Host
	}
	if s.opts.Revisions == nil && p.State != journal.PastPending {
		d.Revision = &p.Seq // upstream has no numbers of its own
	}
	return d
}

// together returns the states that are kept here and those that are kept upstream, each once, newest first. Both
// are newest first. A state in both is upstream's, with the number that it has here. Numbers decide which of two
// is newer, and the writers' clocks if one has no number. Upstream was seen without the entry because of the
// delete beside that state. trimmed says that versions here were removed for room.
func together(here, there []api.Revision, trimmed bool) (all []api.Revision) {
	newest := uint64(math.MaxUint64) // a later write is not among the versions here yet
	if len(here) > 0 {
		newest = *here[0].Seq
	}
	for i := range there {
		d := &there[i]
		// Nobody knows which write here an own one has replaced, if its version here is gone.
		if d.Here && d.Seq != nil && *d.Seq <= newest && trimmed { // guard 13.87
			d.Gap = string(journal.GapForgotten)
		}
		here = slices.DeleteFunc(here, func(mine api.Revision) bool {
			same := isSame(&mine, d)
			if same {
				d.Seq, d.Gap, d.Follows = mine.Seq, mine.Gap, mine.Follows
			}
			return same
		})
	}
	for len(here) > 0 && len(there) > 0 {
		mine, theirs := &here[0], &there[0]
		newer := mine.UpdatedAt >= theirs.UpdatedAt
		if theirs.Seq != nil {
			newer = *mine.Seq > *theirs.Seq // guard 13.66
		}
		switch {
		case !newer:
			all, there = append(all, *theirs), there[1:]
		case mine.Value == nil && !mine.Here && (theirs.Value == nil || len(all) > 0 && all[len(all)-1].Value == nil):
			here = here[1:]
		default:
			all, here = append(all, *mine), here[1:]
		}
	}
	all = append(append(all, here...), there...)
	for i := range all { // upstream may keep what is gone here
		d := &all[i]
		if d.Follows != 0 && slices.ContainsFunc(all, func(o api.Revision) bool { return o.Here && o.Seq != nil && *o.Seq == d.Follows }) {
			d.Gap = ""
		}
	}
	return all
}

// isSame reports whether a state here is one that upstream keeps: this daemon's write of that number, or a state
// that upstream has shown.
func isSame(here, there *api.Revision) bool {
	if here.Op != there.Op || here.Text() != there.Text() {
		return false
	}
	if here.Here { // guard 13.67
		return there.Here && there.Seq != nil && *here.Seq == *there.Seq
	}
	return here.Host == there.Host && here.UpdatedAt == there.UpdatedAt // guard 13.68
}

// withPresent returns the index of the present state. The newest state may be another one: upstream has refused
// it, or a person has dropped it. If the present state is not among them, withPresent adds it.
func withPresent(states []api.Revision, now *cache.Item) (all []api.Revision, present int, err error) {
	d := api.Revision{State: "absent", Op: journal.Delete.String(), UpdatedAt: unixSeconds(now.ConfirmedAt)}
	value, updatedAt, exists, err := memory.Shown(now)
	if exists {
		d = api.Revision{State: "shown", Op: journal.Put.String(), Value: &value, Bytes: wire.CodePoints(value), UpdatedAt: updatedAt}
	}
	present = slices.IndexFunc(states, func(s api.Revision) bool {
		return s.State != deadState && s.State != unsealedState && s.State != "superseded" && s.Op == d.Op && s.Text() == d.Text()
	})
	if present >= 0 {
		return states, present, err
	}
	return slices.Insert(states, 0, d), 0, err
}
