package fastpath

import (
	"bytes"
	"net/http"
	"strconv"
)

// largeAnswer is the size, in bytes, from which a body is sent as it is written: a connection keeps no copy
// of a large body for a slow caller.
const largeAnswer = 16 << 10

type response struct {
	conn   *conn
	header http.Header // the handler's
	sent   http.Header // a copy of header, made when the status was written
	status int
	body   bytes.Buffer
	last   bool // the connection ends with this answer
	done   bool // the answer has been sent, or appended to the connection's out
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
	}
}

// Write keeps a part of a body, and sends a large body that comes in one piece.
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.done:
		return 0, http.ErrContentLength
	case len(b) < largeAnswer || w.body.Len() > 0 || w.sent.Get("Content-Length") != strconv.Itoa(len(b)):
		return w.body.Write(b)
	}
	w.appendHead(len(b))
	if !w.conn.send(b) {
		w.last = true
		return 0, http.ErrHandlerTimeout
	}
	return len(b), nil
}

func (w *response) finish() {
	if w.done {
		return
	}
	w.WriteHeader(http.StatusOK)
	w.appendHead(w.body.Len())
	w.conn.out = append(w.conn.out, w.body.Bytes()...)
}

func (w *response) appendHead(length int) {
	server := w.conn.server
	if server.ending.Load() {
		w.sent.Set("Connection", "close")
	}
	w.last = w.sent.Get("Connection") == "close"
	w.sent.Set("Content-Length", strconv.Itoa(length))
	w.done = true
	head := bytes.NewBuffer(w.conn.out)
	head.WriteString("HTTP/1.1 " + strconv.Itoa(w.status) + " " + http.StatusText(w.status) + "\r\n")
	_ = w.sent.Write(head) // a buffer never fails
	head.WriteString(server.date())
	head.WriteString("\r\n")
	w.conn.out = head.Bytes()
}
