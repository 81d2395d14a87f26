package botwire

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

// callersTime bounds how long upstream waits for a caller whose request is passed on: in total for
// sending the body, and for taking each part of the answer. Otherwise a caller that stalls would keep
// its own connection, and one to upstream, forever. Time that upstream takes does not count: an answer
// may be a stream, and a body goes at upstream's pace.
const callersTime = time.Minute

// callersBody is a body that has to arrive within callersTime.
type callersBody struct {
	io.ReadCloser
	control *http.ResponseController
	left    time.Duration
	over    bool // no more deadlines: net/http now watches for the caller to leave

	late atomic.Pointer[time.Time] // deadline of the present read, or of one that missed it
	bad  atomic.Bool               // the body is malformed
}

// refusal returns the answer to a caller whose body is at fault; nil if the request failed for another
// reason.
func (b *callersBody) refusal() *wire.Refusal {
	switch {
	case b.isLate():
		return wire.Detail(http.StatusRequestTimeout, "The body took too long to come.")
	case b.bad.Load():
		return wire.Detail(http.StatusBadRequest, "There was an error parsing the body")
	}
	return nil
}

// isLate reports whether the caller has kept upstream waiting for too long. net/http ends the request's
// context before Read returns, so the request may have failed because of the delay.
func (b *callersBody) isLate() bool {
	late := b.late.Load()
	return late != nil && !time.Now().Before(*late)
}

func (b *callersBody) Read(p []byte) (int, error) {
	if b.over {
		return b.ReadCloser.Read(p)
	}
	began := time.Now()
	late := began.Add(b.left)
	b.late.Store(&late)
	if err := b.control.SetReadDeadline(late); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= time.Since(began)
	b.over = err != nil
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		b.late.Store(nil)
		b.bad.Store(isMalformed(err))
	}
	return n, err
}

// isMalformed reports whether err, from reading a body, means that the body is malformed. That is any
// error but its end, its size limit, and a read after upstream has ended the request.
func isMalformed(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) &&
		!errors.As(err, new(*http.MaxBytesError))
}

// callersAnswer is an answer whose caller has callersTime to take each part.
type callersAnswer struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap lets an http.ResponseController reach the server's own writer.
func (a *callersAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader also gives the header its time.
func (a *callersAnswer) WriteHeader(status int) {
	_ = a.extend() // if it fails, the connection has ended
	a.ResponseWriter.WriteHeader(status)
}

func (a *callersAnswer) Write(p []byte) (int, error) {
	if err := a.extend(); err != nil {
		return 0, err
	}
	return a.ResponseWriter.Write(p)
}

// FlushError sends what Write has buffered. http.ResponseController calls it.
func (a *callersAnswer) FlushError() error {
	if err := a.extend(); err != nil {
		return err
	}
	return a.control.Flush()
}

func (a *callersAnswer) extend() error {
	err := a.control.SetWriteDeadline(time.Now().Add(callersTime))
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
