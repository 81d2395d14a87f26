// Package sse writes and reads server-sent events, as the HTML standard defines the format
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// ContentType is the media type of a stream of events.
const ContentType = "text/event-stream"

// Event is one event. A reader resumes after the last ID that it knows.
type Event struct {
	ID   string
	Name string // "message" if the stream gives no name
	Data []byte
}

// AppendEvent appends an event. Without an ID, the reader keeps its last one. name and id must not contain
// line ends. Each line of data becomes a data field.
func AppendEvent(dst []byte, id, name string, data []byte) []byte {
	dst = appendField(dst, "id: ", id)
	dst = appendField(dst, "event: ", name)
	for line := range bytes.Lines(data) {
		dst = append(dst, "data: "...)
		dst = append(dst, bytes.TrimSuffix(line, []byte("\n"))...)
		dst = append(dst, '\n')
	}
	return append(dst, '\n')
}

func appendField(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

// AppendID appends an ID without an event: a reader resumes after it.
func AppendID(dst []byte, id string) []byte { return append(appendField(dst, "id: ", id), '\n') }

// AppendRetry appends how long a reader that loses the stream waits before it reconnects.
func AppendRetry(dst []byte, after time.Duration) []byte {
	return append(appendField(dst, "retry: ", strconv.FormatInt(after.Milliseconds(), 10)), '\n')
}

// AppendComment appends a comment, which shows the reader that the connection lives.
func AppendComment(dst []byte, text string) []byte { return append(appendField(dst, ": ", text), '\n') }

// ErrTooLong reports a line or an event that is longer than the reader allows.
var ErrTooLong = errors.New("the stream has an event that is too long")

// Reader reads the events of a stream.
type Reader struct {
	lines *bufio.Scanner
	most  int
	// LastID is the ID to resume after: that of the last event, or one that came without an event.
	LastID string
	// Heard, if not nil, is called for every line: even a comment shows that the other side lives.
	Heard func()
}

// NewReader returns a reader of a stream whose events have at most most bytes.
func NewReader(from io.Reader, most int) *Reader {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, most)
	lines.Split(splitLines)
	return &Reader{lines: lines, most: most}
}

// Next returns the next event, or io.EOF at the end of the stream. It drops an event that the end cuts short.
func (r *Reader) Next() (Event, error) {
	e := Event{Name: "message"}
	id, data, size := r.LastID, []byte(nil), 0
	for r.lines.Scan() {
		line := r.lines.Text()
		if line == "" {
			r.LastID = id
		}
		if r.Heard != nil {
			r.Heard()
		}
		if line == "" {
			if len(data) > 0 {
				e.ID, e.Data = id, data[:len(data)-1] // without the last line's end
				return e, nil
			}
			e.Name, size = "message", 0
			continue
		}
		if size += len(line); size > r.most {
			return Event{}, ErrTooLong
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(append(data, value...), '\n')
		case "event":
			e.Name = value
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Event{}, ErrTooLong
	case err != nil:
		return Event{}, err
	}
	return Event{}, io.EOF
}

// splitLines splits at each line end that the format knows: CRLF, LF or CR.
func splitLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0:
		return 0, nil, nil // a line without its end does not count
	case data[i] == '\n':
		return i + 1, data[:i], nil
	case i+1 < len(data) && data[i+1] == '\n':
		return i + 2, data[:i], nil
	case i+1 < len(data) || atEOF:
		return i + 1, data[:i], nil
	}
	return 0, nil, nil // the next byte may be the LF of a CRLF
}
