package main

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/surface"
	"github.com/botwired/botwired/upstream"
)

// revisions gives the proxy the revisions of an entry that the engine keeps.
type revisions struct {
	ask  func(context.Context, journal.ID) ([]upstream.Version, error) // newest first
	host string                                                        // marks this daemon's writes upstream
}

// Host returns the name under which this daemon writes.
func (r revisions) Host() string { return r.host }

// Revisions returns an entry's revisions, newest first. See [surface.Revisions].
func (r revisions) Revisions(ctx context.Context, id journal.ID) ([]surface.Revision, error) {
	versions, err := r.ask(ctx, id)
	if err != nil {
		return nil, unavailable(err)
	}
	states := make([]surface.Revision, len(versions))
	for i, v := range versions {
		states[i] = surface.Revision{
			Number: v.Revision, Deleted: v.Deleted, Value: v.Value, CreatedAt: v.CreatedAt, WrittenAt: v.WrittenAt,
			Host: v.Writer.Host, Seq: v.Writer.Seq,
		}
	}
	return states, nil
}

// leastRetry is the shortest retry time, also used if the engine gives none.
const leastRetry = time.Second

// unavailable converts an engine's error for the proxy.
func unavailable(err error) error {
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		return &upstream.Unavailable{Wait: max(failed.RetryAfter, leastRetry), Reason: failed.Reason}
	}
	return err
}
