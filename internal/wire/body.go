package wire

import (
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
	// smallBody is the largest body, in bytes, that takes no room: nearly all bodies are
	// small, and all connections together can hold only so many.
	smallBody = 64 << 10
	// bodiesRoom bounds the larger bodies that are under way at a time, in bytes. The
	// values decoded from them take about as much again.
	bodiesRoom = 64 << 20
	// roomPatience is how long a body waits for room.
	roomPatience = 5 * time.Second
	// bodyTime is how long a body that has room may take to come: a caller that sends it
	// byte by byte would keep the others out. The largest takes milliseconds on a loopback.
	bodyTime = 15 * time.Second
)

var (
	errTooLarge = Detail(http.StatusRequestEntityTooLarge, "Request body too large. Max "+strconv.Itoa(MaxBodyBytes)+" bytes.")
	errTooSlow  = Detail(http.StatusRequestTimeout, "The body took too long to come.")
	errNoRoom   = Detail(http.StatusServiceUnavailable, "Too many large bodies are being read: try again.")
)

// Bodies reads the bodies of a server's requests, and bounds the memory that they take:
// each by [MaxBodyBytes], and large bodies and bodies of unknown length together. Its
// methods may be called concurrently.
type Bodies struct{ room *semaphore.Weighted }

// NewBodies returns the bodies of one server.
func NewBodies() *Bodies { return &Bodies{semaphore.NewWeighted(bodiesRoom)} }

// Room is the share of a body in the memory that all bodies may take together. The zero
// value is none.
type Room struct {
	of    *Bodies
	bytes int64
}

// Release gives the room back. Call it when neither the body nor its value is needed any
// more. It may be called again.
func (r *Room) Release() {
	if r.bytes > 0 {
		r.of.room.Release(r.bytes)
		r.bytes = 0
	}
}

// Read returns a request's body, and the room that it takes until that is released. It
// does not read on once the body is known to be too large, and has the connection closed
// then. A body that takes room waits for it, and is refused with 503 and Retry-After when
// there is none in time.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request) (body []byte, room Room, refusal *Refusal) {
	if r.ContentLength > MaxBodyBytes {
		w.Header().Set("Connection", "close")
		return nil, Room{}, errTooLarge
	}
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		if room = b.admit(r); room.bytes == 0 {
			w.Header().Set("Connection", "close") // the body is not read
			w.Header().Set("Retry-After", "1")
			return nil, Room{}, errNoRoom
		}
		// net/http lifts the deadline when the body is in. If it cannot be moved, the server's
		// own deadline bounds the time.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err == nil {
		return body, room, nil
	}
	room.Release()
	w.Header().Set("Connection", "close")
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, Room{}, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, Room{}, errTooSlow
	}
	return nil, Room{}, errUnreadable // it was cut short
}

// admit waits for room; it returns none when there is none in time.
func (b *Bodies) admit(r *http.Request) Room {
	room := Room{b, r.ContentLength}
	if room.bytes < 0 {
		room.bytes = MaxBodyBytes
	}
	ctx, cancel := context.WithTimeout(r.Context(), roomPatience)
	defer cancel()
	if b.room.Acquire(ctx, room.bytes) != nil {
		return Room{}
	}
	return room
}
