package fastpath_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A handler that hijacks the connection, for a web socket, keeps it as long as it likes. It gets every byte,
// even after it has closed its own side.
func TestAConnectionThatTheHandlerTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(rw http.ResponseWriter, _ *http.Request) {
			c, _, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_ = c.(interface{ CloseWrite() error }).CloseWrite() // this transport cannot close half a connection
			_, _ = io.Copy(c, c)                                 // it echoes until the caller leaves
		})
		c := w.dial(t)
		go func() {
			_, _ = io.WriteString(c, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n") // the answer shows whether it arrived
		}()
		from := bufio.NewReader(c)
		if r, err := http.ReadResponse(from, nil); err != nil || r.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("answered with %v, %v", r, err)
		}
		for range 3 {
			time.Sleep(2 * idle)
			go func() { _, _ = io.WriteString(c, "hello") }() // as above
			got := make([]byte, len("hello"))
			if _, err := io.ReadFull(from, got); err != nil || string(got) != "hello" {
				t.Fatalf("the handler echoes %q, %v", got, err)
			}
		}
		if err := c.Close(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
}
