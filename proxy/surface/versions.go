package surface

import (
	"context"
	"slices"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// versionsListed bounds how many versions of an entry the surface lists.
const versionsListed = 100

// versionsOf makes an Options.Revisions of the versions that the journal keeps.
func versionsOf(j *journal.Journal) func(context.Context, journal.ID) ([]api.Revision, error) {
	return func(_ context.Context, id journal.ID) ([]api.Revision, error) {
		now, err := j.Lookup(id)
		if err != nil {
			return nil, err
		}
		kept, err := j.History.Of(id, versionsListed)
		if err != nil {
			return nil, err
		}
		present := func(p journal.Past) bool { return p.State == journal.PastCurrent }
		if at := slices.IndexFunc(kept, present); at > 0 && now.Kind == journal.Settled { // newer ones were refused
			current := kept[at]
			kept = slices.Insert(slices.Delete(kept, at, at+1), 0, current)
		}
		var states []api.Revision
		if now.Kind == journal.Absent && len(kept) > 0 && kept[0].Op == journal.Put {
			states = append(states, api.Revision{State: "absent", Op: journal.Delete.String(), UpdatedAt: unixSeconds(now.ConfirmedAt)})
		}
		for _, p := range kept {
			if p.State != journal.PastPending {
				states = append(states, versionOf(&p))
			}
		}
		return states, nil
	}
}

func versionOf(p *journal.Past) api.Revision {
	d := api.Revision{Revision: &p.Seq, State: string(p.State), Op: p.Op.String(), UpdatedAt: p.WrittenAt, Author: p.Author, Host: p.Host}
	if p.State == journal.PastCurrent {
		d.State = string(journal.PastSettled)
	}
	if p.Op == journal.Put {
		d.Value, d.Bytes = &p.Value, wire.CodePoints(p.Value)
	}
	if !p.Shown {
		d.Here, d.Seq = true, &p.Seq
	}
	return d
}
