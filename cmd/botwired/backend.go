package main

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// watch gives the surface the view that the engine keeps.
type watch struct{ upstream.View }

// State implements [surface.Watch].
func (w watch) State() api.WatchState { return api.WatchState(w.View.State()) }

// purgeOf gives the surface an engine's removal of older versions.
func purgeOf(b upstream.Backend) func(context.Context, journal.ID) error {
	return func(ctx context.Context, of journal.ID) error { return unavailable(b.Purge(ctx, of)) }
}

// unavailable makes an engine's error one that the surface can answer with.
func unavailable(err error) error {
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		return &upstream.Unavailable{Wait: max(failed.RetryAfter, time.Second), Reason: failed.Reason}
	}
	return err
}

// revisionsOf gives the surface the revisions that an engine keeps.
func revisionsOf(b upstream.Backend) func(context.Context, journal.ID) ([]api.Revision, error) {
	return func(ctx context.Context, id journal.ID) ([]api.Revision, error) {
		versions, err := b.Revisions(ctx, id)
		states := make([]api.Revision, len(versions))
		for i := range versions {
			v := &versions[i]
			d := api.Revision{
				Revision: &v.Revision, State: "settled", Op: journal.Delete.String(),
				UpdatedAt: v.WrittenAt, Host: v.Writer.Host, Here: v.Writer.Host == b.Host, Author: v.Author,
			}
			if d.Here && v.Writer.Seq != 0 {
				d.Seq = &v.Writer.Seq
			}
			if !v.Deleted {
				d.Op, d.CreatedAt, d.Value, d.Bytes = journal.Put.String(), &v.CreatedAt, &v.Value, wire.CodePoints(v.Value)
			}
			states[i] = d
		}
		return states, unavailable(err)
	}
}
