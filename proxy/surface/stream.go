package surface

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/feed"
	"github.com/botwired/botwired/internal/sse"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/wire"
)

const (
	heartbeat = 15 * time.Second
	// streamPace is the pause after a batch of records, in which others gather. streamBatch bounds a batch.
	// Together they bound a stream's cost to a few milliseconds a second, however many requests there are.
	streamPace  = 50 * time.Millisecond
	streamBatch = 128
	// writePatience is how long a stream waits for a reader that takes nothing more, before it ends.
	writePatience = 30 * time.Second
)

// stream sends the records of a feed as server-sent events until the caller leaves or the daemon stops.
type stream[T any] struct {
	from  *feed.Reader[T]
	begin []byte
	// tell appends events for the records, and for those missed before them. If pause is not 0, nothing more
	// is sent for that long.
	tell func(dst []byte, records []feed.Record[T], missed uint64) (out []byte, pause time.Duration)
	beat func(dst []byte) []byte
}

func (s *stream[T]) answer(running *tasks.Tasks, w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", sse.ContentType)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(running.Detached(), cancel)() // guard 22.25
	// The server's read timeout would end the stream.
	if err := supported(http.NewResponseController(w).SetReadDeadline(time.Time{})); err != nil {
		return err
	}
	_ = s.send(ctx, patientWriter{w, writePatience}) // the answer has begun: an error has nowhere to go
	return nil
}

func (s *stream[T]) send(ctx context.Context, to io.Writer) error {
	beats := time.NewTicker(heartbeat)
	defer beats.Stop()
	records := make([]feed.Record[T], streamBatch)
	events := s.begin
	for {
		n, missed := s.from.Read(records)
		var pause time.Duration
		events, pause = s.tell(events, records[:n], missed)
		clear(records[:n])
		if len(events) > 0 {
			if _, err := to.Write(events); err != nil {
				return err
			}
			events = events[:0]
		}
		wake, gathered := s.from.Wake(), (<-chan time.Time)(nil)
		if n > 0 || missed > 0 {
			wake, gathered = nil, time.After(max(pause, streamPace))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beats.C:
			events = s.beat(events)
		case <-wake:
		case <-gathered:
		}
	}
}

// patientWriter flushes each write at once, and gives the caller that long to take it.
type patientWriter struct {
	http.ResponseWriter
	patience time.Duration
}

func (p patientWriter) Write(b []byte) (int, error) {
	to := http.NewResponseController(p.ResponseWriter)
	if err := supported(to.SetWriteDeadline(time.Now().Add(p.patience))); err != nil { // guard 16.43
		return 0, err
	}
	n, err := p.ResponseWriter.Write(b)
	if err == nil {
		err = supported(to.Flush())
	}
	return n, err
}

func tooManyReaders(err error) error {
	if !errors.Is(err, feed.ErrTooMany) {
		return err
	}
	return wire.Unavailable(5*time.Second,
		"too many readers follow this stream: close a page or a command that does, and try again")
}
