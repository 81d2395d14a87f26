package surface

import (
	"slices"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

const versionsListed = 100

func (s *Surface) statesHere(id journal.ID) ([]api.Revision, error) {
	kept, err := s.journal.History.Of(id, versionsListed)
	states := make([]api.Revision, len(kept))
	for i := range kept {
		states[i] = s.stateOf(&kept[i])
	}
	return states, err
}

func (s *Surface) stateOf(p *journal.Past) api.Revision {
	d := api.Revision{State: string(p.State), Op: p.Op.String(), UpdatedAt: p.WrittenAt, Author: p.Author, Host: p.Host, Seq: &p.Seq}
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
// delete beside that state.
func together(here, there []api.Revision) (all []api.Revision) {
	for i := range there {
		here = slices.DeleteFunc(here, func(d api.Revision) bool {
			same := isSame(&d, &there[i])
			if same && !there[i].Here {
				there[i].Seq = d.Seq
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
	return append(append(all, here...), there...)
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
		return s.State != deadState && s.State != "superseded" && s.Op == d.Op && s.Text() == d.Text()
	})
	if present >= 0 {
		return states, present, err
	}
	return slices.Insert(states, 0, d), 0, err
}
