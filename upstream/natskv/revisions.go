package natskv

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Revisions returns the versions of an entry that the bucket keeps, with values, the newest first:
// tombstones are among them. It takes no longer than Options.Timeout. Errors are *[upstream.Error].
func (e *Engine) Revisions(ctx context.Context, id journal.ID) ([]upstream.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Timeout)
	defer cancel()
	one, stream, failed := e.begin(ctx, readSubject)
	if failed != nil {
		return nil, failed
	}
	defer one.end()
	var versions []upstream.Version
	for next := uint64(1); ; {
		m, err := stream.GetMsg(one.ctx, next, jetstream.WithGetMsgSubject(subjectOf(e.opts.Bucket, id)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			slices.Reverse(versions)
			return versions, nil
		}
		if err != nil {
			return nil, e.failure(one, err)
		}
		versions = append(versions, decode(message{Revision: m.Sequence, Header: m.Header, Body: m.Data, Whole: true, At: m.Time}))
		next = m.Sequence + 1
	}
}
