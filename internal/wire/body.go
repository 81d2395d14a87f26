package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// smallBody is the largest body, in bytes, that needs no room. Nearly all bodies are small, and the bound
	// on connections bounds them together.
	smallBody = 64 << 10
	// bodiesRoom bounds the larger bodies in flight together, in bytes. The values decoded from them take
	// about as much again.
	bodiesRoom = 64 << 20
	// roomPatience bounds all waits of a body for room, together.
	roomPatience = 5 * time.Second
	// bodyTime bounds the reading of a body that has room: a caller that sends byte by byte would keep others
	// out.
	bodyTime = 15 * time.Second
)

var (
	errTooLarge = Detail(http.StatusRequestEntityTooLarge, "Request body too large. Max "+strconv.Itoa(MaxBodyBytes)+" bytes.")
	errTooSlow  = Detail(http.StatusRequestTimeout, "The body took too long to come.")
	errNoRoom   = Unavailable(time.Second, "Too many large bodies are being read: try again.")
)

// Bodies reads the bodies of a server's requests, and bounds the memory that they take: each by
// [MaxBodyBytes], and the large ones together. Of a body of unknown length, only about the bytes that have
// come count. Its methods may be called concurrently.
type Bodies struct{ room *semaphore.Weighted }

// NewBodies returns the bodies of one server.
func NewBodies() *Bodies { return &Bodies{semaphore.NewWeighted(bodiesRoom)} }

// Room is a body's share of the memory that all bodies may take together. The zero value holds no share.
type Room struct {
	of     *Bodies
	bytes  int64
	waited time.Duration // how long it has waited for room so far
}

// Release gives the room back. Call it when neither the body nor its value is needed any more. It may be
// called again.
func (r *Room) Release() {
	if r.bytes > 0 {
		r.of.room.Release(r.bytes)
		r.bytes = 0
	}
}

// Read returns a request's body, and the room that it takes until Release. It stops reading when the body
// proves too large, and then closes the connection. A body that needs room waits for it. If there is none in
// time, the refusal is a 503 with Retry-After.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request) (body []byte, room Room, refusal *Refusal) {
	room.of = b
	body, err := b.read(w, r, &room)
	if err == nil {
		return body, room, nil
	}
	room.Release()
	w.Header().Set("Connection", "close") // the rest of the body is not read
	switch {
	case errors.As(err, &refusal):
	case errors.As(err, new(*http.MaxBytesError)):
		refusal = errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		refusal = errTooSlow
	default:
		refusal = errUnreadable // it was cut short
	}
	return nil, Room{}, refusal
}

// read reserves the room for a body of known length first. For any other body it doubles the room as it
// reads: a stalled caller holds not much more than it has sent.
func (b *Bodies) read(w http.ResponseWriter, r *http.Request, room *Room) ([]byte, error) {
	if r.ContentLength > MaxBodyBytes {
		return nil, errTooLarge
	}
	most := max(smallBody, r.ContentLength)
	var body bytes.Buffer
	from := http.MaxBytesReader(w, r.Body, MaxBodyBytes)
	for ; ; most *= 2 {
		if most > smallBody {
			if err := room.grow(w, r, min(most, MaxBodyBytes)); err != nil {
				return nil, err
			}
		}
		_, err := io.CopyN(&body, from, most-int64(body.Len()))
		if errors.Is(err, io.EOF) || err == nil && r.ContentLength >= 0 {
			return body.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// grow waits until there is room for that many bytes. It fails when roomPatience is used up or the
// caller leaves.
func (r *Room) grow(w http.ResponseWriter, request *http.Request, bytes int64) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(request.Context(), roomPatience-r.waited)
	defer cancel()
	if r.of.room.Acquire(ctx, bytes-r.bytes) != nil {
		return errNoRoom
	}
	r.waited += time.Since(began)
	if r.bytes == 0 {
		// net/http lifts the deadline once the body has come. If the deadline cannot be set, the server's own
		// bounds the time.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
	r.bytes = bytes
	return nil
}
