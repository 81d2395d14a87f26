package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/internal/wire"
)

// Bodies are bounded together, not only one by one. A body without room waits, and is then told to come back.
func TestBodiesUnderWayAreBoundedTogether(t *testing.T) {
	for name, length := range map[string]int64{"large": wire.MaxBodyBytes, "of unknown length, and large": -1} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *sidecar) {
				var refused atomic.Int32
				var bodies []*io.PipeWriter
				for i := range 20 {
					content, body := io.Pipe()
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("/memory/n/k%d", i), content)
					r.ContentLength = length
					bodies = append(bodies, body)
					go func() {
						w := httptest.NewRecorder()
						s.serve(s.server, w, r)
						if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "" && w.Header().Get("Connection") == "close" {
							refused.Add(1)
						}
					}()
					if length < 0 {
						go func() { _, _ = body.Write(make([]byte, wire.MaxBodyBytes-1)) }() // it sends nothing if it is refused
					}
					synctest.Wait()
				}
				s.put(id("n", "small"), strings.Repeat("v", 60_000)) // a small body does not wait
				if time.Sleep(12 * time.Second); refused.Load() != 8 {
					t.Errorf("%d of 20 bodies of %d bytes were refused, want 8", refused.Load(), wire.MaxBodyBytes)
				}
				for _, body := range bodies {
					_ = body.Close()
				}
				synctest.Wait()
				wantStatus(t, s.do(http.MethodPut, "/memory/n/large", putBody(strings.Repeat("€", 90_000))), http.StatusOK)
			})
		})
	}
}

// A body of unknown length holds only the room that it fills: bodies that stall after a few bytes, or after
// many, keep nobody out.
func TestStalledBodiesOfUnknownLength(t *testing.T) {
	for name, c := range map[string]struct{ sent, bodies int }{"small": {10, 1000}, "over 64 KiB": {65 << 10, 400}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *sidecar) {
				var stalled []*io.PipeWriter
				defer func() {
					for _, body := range stalled {
						_ = body.Close()
					}
					synctest.Wait()
				}()
				for range c.bodies {
					content, body := io.Pipe()
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/memory/n/k", content)
					r.ContentLength = -1
					stalled = append(stalled, body)
					go func() {
						s.serve(s.server, httptest.NewRecorder(), r)
						_ = content.Close() // it is refused: the test does not wait for it
					}()
					if _, err := body.Write(make([]byte, c.sent)); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				began := time.Now()
				chunked := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/memory/n/large", strings.NewReader(putBody(strings.Repeat("€", 90_000))))
				chunked.ContentLength = -1
				w := httptest.NewRecorder()
				s.serve(s.server, w, chunked)
				wantStatus(t, w, http.StatusOK)
				wantStatus(t, s.do(http.MethodPut, "/memory/n/larger", putBody(strings.Repeat("€", 99_000))), http.StatusOK)
				if took := time.Since(began); took > 0 {
					t.Errorf("they waited %s", took)
				}
			})
		})
	}
}

// A large body that comes too slowly does not keep others out for long.
func TestASlowBodyGivesItsRoomUp(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		listener := serve(t, s)
		began := time.Now()
		answers := make(chan *http.Response)
		for i := range 12 {
			conn, err := listener.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = fmt.Fprintf(conn, "PUT /memory/n/k%d HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", i, wire.MaxBodyBytes)
				for {
					time.Sleep(time.Second)
					if _, err := io.WriteString(conn, " "); err != nil {
						return
					}
				}
			}()
			go func() {
				r, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Error(err)
				}
				answers <- r
				_ = conn.Close()
			}()
		}
		for range 12 {
			if r := <-answers; r.StatusCode != http.StatusRequestTimeout || time.Since(began) > 20*time.Second {
				t.Errorf("answered %s after %s", r.Status, time.Since(began))
			}
		}
		wantStatus(t, s.do(http.MethodPut, "/memory/n/large", putBody(strings.Repeat("€", 90_000))), http.StatusOK)
	})
}

// serve serves the sidecar's server over connections, as the daemon does.
func serve(t *testing.T, s *sidecar) *pipe.Listener {
	listener, server := pipe.Listen(), &http.Server{Handler: s.server, ReadTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		time.Sleep(time.Minute) // its connections end; in a bubble this takes no time
	})
	return listener
}
