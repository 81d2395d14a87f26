package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/feed"
	"github.com/botwired/botwired/internal/sse"
	"github.com/botwired/botwired/internal/wire"
)

const (
	// heartbeat is how often a stream of events shows that it lives.
	heartbeat = 15 * time.Second
	// streamPace is the pause after records were sent, in which others gather, and streamBatch
	// how many are sent at once: a stream costs the daemon a few milliseconds a second at the
	// most, however many requests there are.
	streamPace  = 50 * time.Millisecond
	streamBatch = 128
	// writePatience is how long a reader may take no more of a stream before it ends.
	writePatience = 30 * time.Second
)

// stream is an answer of server-sent events, which lasts until the caller leaves or the daemon
// stops.
type stream struct {
	ctx context.Context
	w   http.ResponseWriter
	to  *http.ResponseController
	buf []byte
}

// serveStream answers with a stream, on which send goes on until it returns an error.
func serveStream(running *tasks, w http.ResponseWriter, r *http.Request, send func(*stream) error) error {
	h := w.Header()
	h.Set("Content-Type", sse.ContentType)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(running.detached(), cancel)()
	out := &stream{ctx: ctx, w: w, to: http.NewResponseController(w)}
	// The server's limit on the time to read a request would end the stream.
	if err := supported(out.to.SetReadDeadline(time.Time{})); err != nil {
		return err
	}
	_ = send(out) // the answer has begun: there is nobody to tell
	return nil
}

// flush sends what is in the buffer.
func (out *stream) flush() error {
	if err := supported(out.to.SetWriteDeadline(time.Now().Add(writePatience))); err != nil {
		return err
	}
	if _, err := out.w.Write(out.buf); err != nil {
		return err
	}
	out.buf = out.buf[:0]
	return supported(out.to.Flush())
}

// teller makes a stream of the records of a feed.
type teller[T any] struct {
	// tell appends events that tell of records, and of those missed before them. A pause, if it
	// is not 0, is how long nothing more is to be sent.
	tell func(dst []byte, records []feed.Record[T], missed uint64) (out []byte, pause time.Duration)
	// beat appends what is sent every heartbeat.
	beat func(dst []byte) []byte
}

// send sends what a reader reads until the stream ends.
func (t teller[T]) send(out *stream, from *feed.Reader[T]) error {
	beats := time.NewTicker(heartbeat)
	defer beats.Stop()
	records := make([]feed.Record[T], streamBatch)
	for {
		n, missed := from.Read(records)
		var pause time.Duration
		out.buf, pause = t.tell(out.buf, records[:n], missed)
		clear(records[:n])
		if len(out.buf) > 0 {
			if err := out.flush(); err != nil {
				return err
			}
		}
		wake, gathered := from.Wake(), (<-chan time.Time)(nil)
		if n > 0 || missed > 0 {
			wake, gathered = nil, time.After(max(pause, streamPace))
		}
		select {
		case <-out.ctx.Done():
			return out.ctx.Err()
		case <-beats.C:
			out.buf = t.beat(out.buf)
		case <-wake:
		case <-gathered:
		}
	}
}

// tooManyReaders refuses one reader more than there may be.
func tooManyReaders(w http.ResponseWriter, err error) error {
	if !errors.Is(err, feed.ErrTooMany) {
		return err
	}
	w.Header().Set("Retry-After", "5")
	return wire.Detail(http.StatusServiceUnavailable,
		"too many readers follow this stream: close a page or a command that does, and try again")
}
