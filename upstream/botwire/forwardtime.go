package botwire

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// callersTime bounds how long upstream waits for a caller whose request is passed on: in
// all for the body, and for each part of the answer to be taken. A caller that stalls
// would keep its connection, and one upstream, for ever. Time that upstream takes does
// not count: an answer may be a stream, and a body goes at upstream's pace.
const callersTime = time.Minute

// errSlowCaller says that the caller has not sent its body in time.
var errSlowCaller = errors.New("the caller's body took too long to come")

// callersBody is a body that may take callersTime to come.
type callersBody struct {
	io.ReadCloser
	control *http.ResponseController
	left    time.Duration
	over    bool // net/http watches for the caller's leaving, without a deadline
}

func (b *callersBody) Read(p []byte) (int, error) {
	if b.over {
		return b.ReadCloser.Read(p)
	}
	began := time.Now()
	if err := b.control.SetReadDeadline(began.Add(b.left)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= time.Since(began)
	b.over = err != nil
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSlowCaller
	}
	return n, err
}

// callersAnswer is an answer of which each part may take callersTime to be taken.
type callersAnswer struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap lets an http.ResponseController reach the server's own writer.
func (a *callersAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader gives the header its time, too.
func (a *callersAnswer) WriteHeader(status int) {
	_ = a.extend() // if it fails the connection has ended
	a.ResponseWriter.WriteHeader(status)
}

func (a *callersAnswer) Write(p []byte) (int, error) {
	if err := a.extend(); err != nil {
		return 0, err
	}
	return a.ResponseWriter.Write(p)
}

// FlushError is what an http.ResponseController calls. It sends what Write has kept.
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
