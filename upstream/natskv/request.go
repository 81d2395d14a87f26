package natskv

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// readSubject is the prefix of the subjects of requests for a message.
const readSubject = "$JS.API.STREAM.MSG.GET."

// begin begins a request to the stream, or returns why none may be made. The request's context ends
// with ctx and with the connection.
func (e *Engine) begin(ctx context.Context, subject string) (*call, jetstream.Stream, *upstream.Error) {
	if refused := e.watch.admit(ctx); refused != nil {
		return nil, nil, refused
	}
	one, failed := e.link.call(ctx, subject)
	return one, e.bucket.open(), failed
}

// Exact implements [upstream.Engine].
func (e *Engine) Exact() bool { return true }

// Named implements [upstream.Engine].
func (e *Engine) Named(string) bool { return true }

// Known implements [upstream.Engine].
func (e *Engine) Known(id journal.ID) (upstream.Version, bool) { return e.index.get(id) }

// Get implements [upstream.Engine]. It asks the stream's leader. A leader that was just deposed, and
// does not know this yet, may return an old version.
func (e *Engine) Get(ctx context.Context, id journal.ID) (upstream.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Timeout)
	defer cancel()
	one, stream, failed := e.begin(ctx, readSubject)
	if failed != nil {
		return upstream.Version{}, failed
	}
	defer one.end()
	m, err := stream.GetLastMsgForSubject(one.ctx, subjectOf(e.opts.Bucket, id))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return upstream.Version{}, nil
	case err != nil:
		return upstream.Version{}, e.failure(one, err)
	}
	v := e.decode(message{Revision: m.Sequence, Header: m.Header, Body: m.Data, Whole: true, At: m.Time})
	e.show(id, v, m.Time)
	if known, _ := e.index.get(id); known.Revision == v.Revision {
		v.WrittenAt = known.WrittenAt // the time that the index has for it
	}
	return v, nil
}

// show adds a version to the index, without its value. at is when the stream received it; zero if unknown.
func (e *Engine) show(id journal.ID, v upstream.Version, at time.Time) {
	v.Value = ""
	e.index.apply(id, v)
	e.watch.keeper.sees(Mark{Revision: v.Revision, At: at, Entry: id, Written: v.WrittenAt})
}

// Swap implements [upstream.Engine].
func (e *Engine) Swap(ctx context.Context, p upstream.Proposal) (upstream.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Timeout)
	defer cancel()
	subject := subjectOf(e.opts.Bucket, p.ID)
	one, _, failed := e.begin(ctx, subject)
	if failed != nil {
		return upstream.Version{}, failed
	}
	defer one.end()
	v := becomes(p)
	ack, err := one.js.PublishMsg(one.ctx, encode(subject, v),
		jetstream.WithRetryAttempts(0), // the caller judges how an attempt ended
		jetstream.WithExpectStream(streamName(e.opts.Bucket)),
		jetstream.WithExpectLastSequencePerSubject(p.Over.Revision))
	if err != nil {
		return upstream.Version{}, e.unswapped(ctx, one, p.ID, err)
	}
	v.Revision = ack.Sequence
	e.show(p.ID, v, time.Time{})
	return v, nil
}

// unswapped returns the error of a failed swap.
func (e *Engine) unswapped(ctx context.Context, one *call, id journal.ID, err error) error {
	if answer, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch answer.ErrorCode {
		case codeOtherUnderWay:
			return &upstream.Conflict{}
		case codeWrongSequence:
			now, err := e.Get(ctx, id)
			if err != nil {
				return &upstream.Conflict{}
			}
			return &upstream.Conflict{Now: &now}
		}
	}
	return e.failure(one, err)
}

// List implements [upstream.Engine]. It returns all keys of the namespace, newest first, with all
// writes that the servers had confirmed when List was called.
func (e *Engine) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Timeout)
	defer cancel()
	if err := e.watch.barrier(ctx); err != nil { // the index then has all that the servers held
		return nil, false, err
	}
	rows, _, known := e.Newest(namespace, math.MaxInt)
	if !known {
		return nil, false, &upstream.Error{Verdict: upstream.Transient, Reason: "botwired has not read the bucket yet"}
	}
	return rows, true, nil
}

// Revisions is that of [upstream.Backend]. It takes at most Options.Timeout.
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
		versions = append(versions, e.decode(message{Revision: m.Sequence, Header: m.Header, Body: m.Data, Whole: true, At: m.Time}))
		next = m.Sequence + 1
	}
}
