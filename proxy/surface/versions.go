package surface

import (
	"context"
	"slices"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

// versionsListed bounds how many versions of an entry the surface lists.
const versionsListed = 100

// versionsOf makes an Options.Revisions of the versions that the journal keeps. They do not say which
// state is the present one: see withPresent.
func versionsOf(j *journal.Journal) func(context.Context, journal.ID) ([]api.Revision, error) {
	return func(_ context.Context, id journal.ID) ([]api.Revision, error) {
		kept, err := j.History.Of(id, versionsListed)
		var states []api.Revision
		for _, p := range kept {
			if p.State != journal.PastPending {
				states = append(states, versionOf(&p))
			}
		}
		return states, err
	}
}

// withPresent puts the present state first. The newest version may be another one: upstream has refused
// it, a person has dropped it, or the present state has no version here.
func withPresent(states []api.Revision, now *cache.Item) ([]api.Revision, error) {
	present := api.Revision{State: "absent", Op: journal.Delete.String(), UpdatedAt: unixSeconds(now.ConfirmedAt)}
	value, updatedAt, exists, err := memory.Shown(now)
	if err != nil {
		return nil, err
	}
	if exists {
		present = api.Revision{State: "shown", Op: journal.Put.String(), Value: &value, Bytes: wire.CodePoints(value), UpdatedAt: updatedAt}
	}
	at := slices.IndexFunc(states, func(d api.Revision) bool {
		return d.State != deadState && d.State != "superseded" && d.Op == present.Op && d.Text() == present.Text()
	})
	if at >= 0 {
		present = states[at]
		states = slices.Delete(states, at, at+1)
	}
	return slices.Insert(states, 0, present), nil
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
