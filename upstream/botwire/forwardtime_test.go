package botwire_test

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
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/upstream/botwire"
)

// passing forwards requests to an upstream, over connections like the daemon's.
func passing(t *testing.T, upstream func(net.Conn, *http.Request)) net.Conn {
	c := clientOf(t, func(ctx context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }() // pipes close without an error
			if r, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
				upstream(far, r)
			}
		}()
		return near, ctx.Err()
	})
	server := &http.Server{
		Handler:           botwire.NewForwarder(c, func() bool { return false }, slog.New(slog.DiscardHandler)),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	}
	listener := pipe.Listen()
	go func() { _ = server.Serve(listener) }()
	caller, err := listener.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = caller.Close()
		_ = server.Close()
		time.Sleep(time.Second) // net/http lingers for 500 ms on a request that was not read
	})
	return caller
}

// A caller that does not send its body, or sends it byte by byte, is cut off.
func TestForwardGivesUpAStalledBody(t *testing.T) {
	for name, pause := range map[string]time.Duration{"stalls": 24 * time.Hour, "a byte now and then": 7 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller := passing(t, func(_ net.Conn, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				began := time.Now()
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					_, err := io.WriteString(caller, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n")
					for ; err == nil && time.Since(began) < time.Hour; time.Sleep(pause) {
						_, err = caller.Write([]byte{'x'})
					}
				}()
				r, err := http.ReadResponse(bufio.NewReader(caller), nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); r.StatusCode != http.StatusRequestTimeout || !r.Close || took > 2*time.Minute {
					t.Errorf("answered %s, close %t, after %s", r.Status, r.Close, took)
				}
				_, _ = io.Copy(io.Discard, caller)
				if took := time.Since(began); took > 2*time.Minute {
					t.Errorf("the connection ended after %s", took)
				}
				_ = caller.Close()
				<-gone
			})
		})
	}
}

// A malformed body is the caller's fault: retrying is useless.
func TestForwardRefusesAMalformedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := passing(t, func(_ net.Conn, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		if _, err := io.WriteString(caller, "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n"); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(caller), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode != http.StatusBadRequest || !r.Close || r.Header.Get("Retry-After") != "" {
			t.Errorf("answered %s, close %t, %v", r.Status, r.Close, r.Header)
		}
	})
}

// Time that upstream takes does not count against a caller: upstream may read a body slowly, and stream
// its answer for a long time.
func TestForwardWaitsForUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := bytes.Repeat([]byte("x"), 1<<20)
		caller := passing(t, func(up net.Conn, r *http.Request) {
			got := 0
			for b := make([]byte, 100_000); ; time.Sleep(20 * time.Second) {
				n, err := io.ReadFull(r.Body, b)
				if got += n; err != nil {
					break
				}
			}
			_, _ = fmt.Fprintf(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range 20 {
				time.Sleep(50 * time.Second)
				line := fmt.Sprintf("data: %d\n\n", got)
				_, _ = fmt.Fprintf(up, "%x\r\n%s\r\n", len(line), line)
			}
			_, _ = io.WriteString(up, "0\r\n\r\n")
		})
		go func() {
			_, _ = fmt.Fprintf(caller, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", len(body))
			_, _ = caller.Write(body)
		}()
		r, err := http.ReadResponse(bufio.NewReader(caller), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if want := strings.Repeat(fmt.Sprintf("data: %d\n\n", len(body)), 20); err != nil || string(text) != want {
			t.Errorf("%s, %v, %q", r.Status, err, text)
		}
	})
}

// A caller that does not read its answer is cut off, and so is upstream's connection.
func TestForwardGivesUpACallerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		began := time.Now()
		caller := passing(t, func(up net.Conn, _ *http.Request) {
			_, err := io.WriteString(up, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
			time.Sleep(time.Second) // so that the header is passed on by itself
			for err == nil {
				_, err = up.Write(make([]byte, 1<<20))
			}
			ended <- time.Since(began)
		})
		if _, err := io.WriteString(caller, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := http.ReadResponse(bufio.NewReader(caller), nil); err != nil {
			t.Fatal(err)
		}
		if took := <-ended; took > 2*time.Minute {
			t.Errorf("it was given up after %s", took)
		}
	})
}

// An upstream that does not read a request is cut off, and the caller gets an answer.
func TestForwardGivesUpAnUpstreamThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalls := make(chan struct{})
		defer close(stalls)
		caller := passing(t, func(net.Conn, *http.Request) { <-stalls })
		began := time.Now()
		go func() {
			_, _ = fmt.Fprintf(caller, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", 1<<20)
			_, _ = caller.Write(make([]byte, 1<<20)) // ends with the connection
		}()
		r, err := http.ReadResponse(bufio.NewReader(caller), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); r.StatusCode != http.StatusServiceUnavailable || took > 2*time.Minute {
			t.Errorf("answered %s after %s", r.Status, took)
		}
	})
}
