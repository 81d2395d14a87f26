package fastpath

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A connection's buffers do not grow with what its caller sends ahead, whoever answers, and shrink after a
// large request.
func TestBuffersStaySmall(t *testing.T) {
	answer := bytes.Repeat([]byte("x"), 50_000)
	handle := func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write(answer); err != nil {
			t.Error(err)
		}
	}
	server := New(nowhere{}, Options{
		HTTP: &http.Server{
			Handler: http.HandlerFunc(handle), ReadHeaderTimeout: time.Hour, ReadTimeout: time.Hour, WriteTimeout: time.Hour, IdleTimeout: time.Hour,
		},
		Admits:      func(*http.Request) bool { return true },
		BodyMatters: func(*Request) bool { return true },
		Answer: func(r *Request, dst []byte) ([]byte, Later) {
			switch {
			case strings.HasSuffix(r.Path, "/slow"):
				return nil, nil
			case strings.HasSuffix(r.Path, "/later"):
				return nil, func(_ context.Context, w http.ResponseWriter) { handle(w, nil) }
			}
			if len(dst) > maxUnsent {
				t.Errorf("%d bytes of answers are kept", len(dst))
			}
			dst = fmt.Appendf(dst, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(answer))
			return append(dst, answer...), nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	for _, path := range []string{"quick", "slow", "later"} {
		near, far := net.Pipe()
		c := &conn{server: server, net: far}
		const n = 500
		one := "GET /memory/n/" + path + " HTTP/1.1\r\nHost: h\r\n\r\n"
		put := "PUT /memory/n/" + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: 32768\r\n\r\n" + strings.Repeat("x", 32768)
		go func() {
			if _, err := io.WriteString(near, put+strings.Repeat(one, n)); err != nil {
				t.Error(err)
			}
		}()
		go func() {
			from := bufio.NewReader(near)
			for i := range n + 1 {
				r, err := http.ReadResponse(from, nil)
				if err != nil {
					t.Errorf("after %d answers: %v", i, err)
					break
				}
				if size, err := io.Copy(io.Discard, r.Body); err != nil || size != int64(len(answer)) {
					t.Errorf("answer %d has %d bytes: %v", i, size, err)
				}
			}
			if err := near.Close(); err != nil {
				t.Error(err)
			}
		}()
		if got := c.serve(); got != end {
			t.Errorf("%s: the connection ends with %d", path, got)
		}
		if cap(c.buf) > keptBuffer || cap(c.out) > keptBuffer {
			t.Errorf("%s: buffers of %d and %d bytes are kept", path, cap(c.buf), cap(c.out))
		}
	}
}

// nowhere is an unused listener.
type nowhere struct{ net.Listener }

func (nowhere) Addr() net.Addr { return nil }
