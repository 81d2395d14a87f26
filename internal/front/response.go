package front

import (
	"bytes"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// response collects what a handler answers.
type response struct {
	header http.Header // the handler's
	sent   http.Header // what header was when the status was written
	status int
	body   bytes.Buffer
}

func newResponse() *response { return &response{header: make(http.Header)} }

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// append appends the answer as it goes over the wire, and reports whether it is the
// last one of its connection: because of last, or because the handler wants it so.
func (w *response) append(dst []byte, last bool) ([]byte, bool) {
	w.WriteHeader(http.StatusOK)
	if last {
		w.sent.Set("Connection", "close")
	}
	w.sent.Set("Content-Length", strconv.Itoa(w.body.Len()))
	var head bytes.Buffer
	_ = w.sent.Write(&head) // a buffer takes everything
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(w.status), 10)
	dst = append(dst, ' ')
	dst = append(dst, http.StatusText(w.status)...)
	dst = append(dst, "\r\n"...)
	dst = append(dst, head.Bytes()...)
	dst = AppendDate(dst)
	dst = append(dst, "\r\n"...)
	return append(dst, w.body.Bytes()...), w.sent.Get("Connection") == "close"
}

// date is the Date header of one second.
type date struct {
	second int64
	line   string
}

var lastDate atomic.Pointer[date]

// AppendDate appends the line of the header Date (RFC 9110, section 6.6.1).
func AppendDate(dst []byte) []byte {
	now := time.Now()
	d := lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		lastDate.Store(d)
	}
	return append(dst, d.line...)
}
