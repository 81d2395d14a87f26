package main

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/surface"
	"github.com/botwired/botwired/upstream"
)

// revisions shows the proxy the states of entries that an engine keeps.
type revisions struct {
	ask  func(context.Context, journal.ID) ([]upstream.Version, error) // the newest first
	host string                                                        // names this daemon's writes there
}

// Host names this daemon among the writers.
func (r revisions) Host() string { return r.host }

// Revisions returns the states that the engine keeps of an entry, the newest first. See [surface.Revisions].
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

// leastRetry is when it makes sense to ask an engine again that names no time.
const leastRetry = time.Second

// unavailable is an engine's error as the proxy takes it.
func unavailable(err error) error {
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		return &upstream.Unavailable{Wait: max(failed.RetryAfter, leastRetry), Reason: failed.Reason}
	}
	return err
}
