package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/sse"
)

const (
	// streamSilence is how long a stream of the daemon's may be silent, of which it shows every
	// 15 seconds that it lives.
	streamSilence = 45 * time.Second
	// streamRetry is the first pause before a stream that broke off is opened again, and
	// streamRetryMost the longest.
	streamRetry     = 500 * time.Millisecond
	streamRetryMost = 5 * time.Second
	// maxEvent bounds an event, in bytes.
	maxEvent = 4 << 20
)

// errStreamEnded says that the daemon has ended a stream, as it does when it stops.
var errStreamEnded = errors.New("botwired has ended the stream")

// follower follows a stream of events of the running daemon. When the stream breaks off, it opens
// another one, and goes on after the last event that it has seen.
type follower struct {
	client  *client
	request request
	// visit is called with each event. Its error ends the following.
	visit func(sse.Event) error
	// lost, if not nil, is told why the stream broke off, before each try to open another one.
	// Its error ends the following.
	lost func(error) error
	// opened, if not nil, is called when a stream has begun, the first and every other one.
	opened func()

	last string // the last event's ID
}

// run follows until ctx ends or the daemon refuses. A daemon that cannot be reached at first is an
// error. Later it may have been restarted: then run tries again, for as long as lost lets it.
func (f *follower) run(ctx context.Context) error {
	began, pause := false, streamRetry
	for {
		heard, err := f.stream(ctx)
		began = began || heard
		var visited *visitError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &visited):
			return visited.error
		case !began, refusesStream(err):
			return err
		}
		if f.lost != nil {
			if err := f.lost(err); err != nil {
				return err
			}
		}
		if heard {
			pause = streamRetry
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, streamRetryMost)
	}
}

// visitError is an error of a follower's own function.
type visitError struct{ error }

// refusesStream reports whether the daemon would refuse another try, too: it has no such stream, or
// wants another token.
func refusesStream(err error) bool {
	var refused *statusError
	return errors.As(err, &refused) && refused.status/100 == 4
}

// stream follows one stream to its end, which always has an error. heard reports whether it began.
func (f *follower) stream(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := f.request
	if f.last != "" {
		r.header = maps.Clone(r.header)
		if r.header == nil {
			r.header = make(http.Header)
		}
		r.header.Set("Last-Event-ID", f.last)
	}
	resp, err := f.client.send(ctx, cancel, r, f.client.firstByte)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != sse.ContentType {
		return false, f.client.foreign()
	}
	if f.opened != nil {
		f.opened()
	}
	silent := time.AfterFunc(streamSilence, func() { cancel(errSilent) })
	defer silent.Stop()
	events := sse.NewReader(resp.Body, maxEvent)
	events.Heard = func() { silent.Reset(streamSilence) }
	events.LastID = f.last
	for {
		event, err := events.Next()
		f.last = events.LastID
		switch {
		case errors.Is(err, io.EOF):
			return true, errStreamEnded
		case errors.Is(context.Cause(ctx), errSilent):
			return true, errSilent
		case err != nil:
			return true, f.client.unreachable(ctx, err)
		}
		if err := f.visit(event); err != nil {
			return true, &visitError{err}
		}
	}
}
