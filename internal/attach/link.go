package attach

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/wire"
)

const (
	// linkPatience is how long a request waits for a daemon to start or restart.
	linkPatience = 30 * time.Second
	// maxRefusal limits how much of a daemon's refusal the link reads, in bytes.
	maxRefusal = 64 << 10
	// linkConnections limits the idle connections to the daemon, for a client's parallel calls.
	linkConnections = 32
)

// Link is a [http.RoundTripper] that sends requests to a configuration's daemon. Requests wait while
// the daemon is not ready. If there is no daemon, the attachment starts one, if it may. The link
// retries a request only if the daemon has not received it, if it is a GET, or if it has a Botwired-Idempotency-Key: no
// write is made twice.
type Link struct {
	transport *http.Transport
	use       *attachment
	turn      chan struct{} // a semaphore for the fields below and for attaching
	up        bool          // the daemon was ready, and no request has failed since
	number    int           // counts the attachments
}

// NewLink returns a link. It looks for a daemon at its first request, or in Attach.
func NewLink(o Options) (*Link, error) {
	use, err := newAttachment(o)
	if err != nil {
		return nil, err
	}
	if err := use.checkPort(); err != nil {
		return nil, err
	}
	l := &Link{use: use, turn: make(chan struct{}, 1), transport: use.client.reach.transport()}
	l.transport.MaxIdleConnsPerHost = linkConnections
	return l, nil
}

// Attach returns when a daemon is ready.
func (l *Link) Attach(ctx context.Context) error {
	_, err := l.attached(ctx)
	return err
}

// attached returns the number of the attachment when a daemon is ready.
func (l *Link) attached(ctx context.Context) (int, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-l.turn }()
	if !l.up {
		if err := l.use.attach(ctx, nil); err != nil {
			return 0, err
		}
		l.up = true
		l.number++
	}
	return l.number, nil
}

func (l *Link) lost(ctx context.Context, number int) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	if l.number == number {
		l.up = false
	}
	<-l.turn
}

// Close makes all further requests wait, so that none restarts a daemon. If the link started the daemon
// and nobody else uses it, Close ends the daemon. It then returns a message about the writes that have
// not reached upstream, or "" if there are none.
func (l *Link) Close(ctx context.Context) (said string) {
	l.turn <- struct{}{}
	l.transport.CloseIdleConnections()
	said, _ = l.use.endAlone(ctx)
	return said
}

// RoundTrip implements [http.RoundTripper].
func (l *Link) RoundTrip(req *http.Request) (*http.Response, error) {
	patience, cancel := context.WithTimeout(req.Context(), linkPatience)
	defer cancel()
	isRepeatable := req.Method == http.MethodGet || req.Header.Get(wire.OwnIdempotencyKey) != ""
	var unanswered error // of an attempt that the daemon may have carried out
	for {
		number, err := l.attached(patience)
		if err != nil {
			return nil, cmp.Or(unanswered, l.unsent(req.Context(), err))
		}
		attempt, err := copyOf(req)
		if err != nil {
			return nil, err
		}
		resp, err := l.transport.RoundTrip(attempt)
		notReady := err == nil && refusesYet(resp)
		if err == nil && !notReady {
			return resp, nil
		}
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		l.lost(patience, number)
		if !notReady && !isUnsent(err) {
			if !isRepeatable {
				return nil, err
			}
			if req.Method != http.MethodGet {
				unanswered = err
			}
		}
		select {
		case <-patience.Done():
			return nil, cmp.Or(unanswered, l.unsent(req.Context(), errors.Join(err, patience.Err())))
		case <-time.After(attachPause):
		}
	}
}

func copyOf(req *http.Request) (*http.Request, error) {
	out := req.Clone(req.Context())
	if req.GetBody == nil {
		return out, nil
	}
	var err error
	out.Body, err = req.GetBody()
	return out, err
}

// isUnsent reports whether a request failed before there was a connection.
func isUnsent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// unsent returns the error for a request that the daemon has not received.
func (l *Link) unsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it was not ready within %s", config.FormatDuration(linkPatience))
	}
	return &net.OpError{Op: "dial", Err: err}
}

// refusesYet reports whether the answer is from a daemon that is still opening its journal. It reads a
// refusal's body, and restores it.
func refusesYet(resp *http.Response) bool {
	if resp.StatusCode != http.StatusServiceUnavailable {
		return false
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	_ = resp.Body.Close() // it has been read
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && isNotReady(&api.Refused{Status: resp.StatusCode, Body: body})
}
