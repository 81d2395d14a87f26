package wire

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A body that finds room bit by bit waits no longer than one that finds none.
func TestAllWaitsForRoomAreBoundedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBodies()
		if err := b.room.Acquire(t.Context(), bodiesRoom-2*smallBody); err != nil {
			t.Fatal(err)
		}
		content, body := io.Pipe()
		defer content.Close()
		go func() { _, _ = body.Write(make([]byte, MaxBodyBytes-1)) }() // as far as it is read
		time.AfterFunc(roomPatience-time.Second, func() { b.room.Release(2 * smallBody) })
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", content)
		r.ContentLength = -1
		began := time.Now()
		_, _, refusal := b.Read(httptest.NewRecorder(), r)
		if waited := time.Since(began); refusal != errNoRoom || waited != roomPatience {
			t.Errorf("refused with %v after %s, want %v after %s", refusal, waited, errNoRoom, roomPatience)
		}
	})
}
