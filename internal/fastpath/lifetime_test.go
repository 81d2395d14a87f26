package fastpath_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/pipe"
)

// Simple requests have net/http's timeouts.
func TestTimeouts(t *testing.T) {
	quick := request("PUT", "/memory/quick/k", "abc")
	for _, test := range []struct {
		name, text string
		answers    int
		at         time.Duration
	}{
		{"nothing is ever sent", "", 0, readHeader},
		{"a head that does not end", quick[:30], 0, readHeader},
		{"a body that does not end", quick[:len(quick)-1], 0, readAll},
		{"no next request", quick, 1, idle},
		{"the head of the next one does not end", quick + quick[:30], 1, readHeader},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, nil)
				c := w.dial(t)
				began := time.Now()
				if test.text != "" {
					exchange(t, c, test.text, test.answers)
				}
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("the connection did not end: %v", err)
				}
				if took := time.Since(began); took > test.at || took < test.at-test.at/8 {
					t.Errorf("it ended after %s, want %s", took, test.at)
				}
			})
		})
	}
}

// The server waits for a caller that does not take its answer no longer than net/http does.
func TestACallerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil)
		c := w.dial(t)
		if _, err := io.WriteString(c, request("GET", "/memory/quick/k", "")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(write + time.Second)
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the answer waited for longer")
		}
	})
}

// Shutdown ends idle connections at once. It lets requests in flight be answered, even one that lacks the end
// of its body, and tells their callers that the connection ends.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 3 * time.Second
		w := start(t, func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(takes)
			echo(rw, r)
		})
		put := request("PUT", "/memory/quick/k", "abc")
		idle, fresh, head, theirs := w.dial(t), w.dial(t), w.dial(t), w.dial(t)
		busy, waiting, lent, partial := w.dial(t), w.dial(t), w.dial(t), w.dial(t)
		given := w.dial(t)
		exchange(t, idle, request("GET", "/memory/quick/k", ""), 1)
		exchange(t, theirs, request("GET", "/other", ""), 1)
		exchange(t, given, chunked, 1)
		for c, text := range map[net.Conn]string{
			busy: request("GET", "/memory/slow/k", ""), waiting: request("GET", "/memory/later/k", ""),
			lent: request("POST", "/other", "abc"), partial: put[:len(put)-1], head: put[:20],
		} {
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		down := make(chan error, 1)
		go func() { down <- w.server.Shutdown(context.Background()) }()
		for what, c := range map[string]net.Conn{"idle": idle, "fresh": fresh, "head": head, "lent before": theirs, "net/http's": given} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) > time.Second {
				t.Errorf("%s: the connection ended after %s with %v", what, time.Since(began), err)
			}
		}
		rest := map[net.Conn]string{partial: put[len(put)-1:]} // the rest of its request
		for _, c := range []net.Conn{busy, waiting, lent, partial} {
			if got := exchange(t, c, rest[c], 1)[0]; !strings.Contains(got, "200 ") || !strings.Contains(got, "close=true") {
				t.Errorf("what was under way is answered with %s", got)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("the connection stays: %v", err)
			}
		}
		if err := <-down; err != nil || time.Since(began) < takes {
			t.Errorf("Shutdown returned %v after %s", err, time.Since(began))
		}
		if err := <-w.served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
}

// Shutdown returns when its context ends. Close then ends everything.
func TestCloseEndsWhatShutdownLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		slow, later := w.dial(t), w.dial(t)
		for c, path := range map[net.Conn]string{slow: "/memory/slow/k", later: "/memory/later/k"} {
			if _, err := io.WriteString(c, request("GET", path, "")); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returned %v", err)
		}
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
		for _, c := range []net.Conn{slow, later} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("the connection stays: %v", err)
			}
		}
	})
}

// troubled is a listener whose first calls fail with given errors.
type troubled struct {
	*pipe.Listener
	errs chan error
}

func (l troubled) Accept() (net.Conn, error) {
	select {
	case err := <-l.errs:
		return nil, err
	default:
		return l.Listener.Accept()
	}
}

// A process without file descriptors goes on once some are free again.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := troubled{pipe.Listen(), make(chan error, 20)}
		for range 10 {
			l.errs <- os.NewSyscallError("accept4", syscall.EMFILE)
		}
		server := fastpath.New(l, fastpath.Options{
			HTTP: &http.Server{
				Handler: http.HandlerFunc(echo), ReadHeaderTimeout: readHeader, ReadTimeout: readAll, WriteTimeout: write, IdleTimeout: idle,
			},
			Admits: func(*http.Request) bool { return false }, Logger: slog.New(slog.DiscardHandler),
		})
		served := make(chan error, 1)
		go func() { served <- server.Serve() }()
		c := dial(t, l.Listener)
		exchange(t, c, request("GET", "/other", ""), 1)
		synctest.Wait() // for the server to accept again: the connection comes before the error
		l.errs <- io.ErrUnexpectedEOF
		other := dial(t, l.Listener)
		if err := <-served; !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Serve returned %v", err)
		}
		exchange(t, c, request("GET", "/other", ""), 1)
		if err := errors.Join(server.Close(), c.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	})
}

// late is a listener that gets a connection while it is being closed.
type late struct {
	*pipe.Listener
	conn chan net.Conn
}

func (l late) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		return c, nil
	}
	select {
	case c := <-l.conn:
		return c, nil
	default:
		return nil, err
	}
}

func TestAConnectionThatComesTooLate(t *testing.T) {
	near, far := net.Pipe()
	l := late{pipe.Listen(), make(chan net.Conn, 1)}
	l.conn <- far
	server := fastpath.New(l, fastpath.Options{HTTP: &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: readHeader}})
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve returned %v", err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stays: %v", err)
	}
}

// An answer's Date is the time when it is made, whoever makes it, even on a connection that has had answers
// before.
func TestDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil)
		c := w.dial(t)
		from := bufio.NewReader(c)
		for range 3 {
			for _, path := range []string{"/memory/quick/k", "/memory/later/k", "/memory/handled/k", "/other"} {
				go func() { _, _ = io.WriteString(c, request("GET", path, "")) }()
				r, err := http.ReadResponse(from, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					t.Fatal(err)
				}
				if got, want := r.Header.Get("Date"), time.Now().UTC().Format(http.TimeFormat); got != want {
					t.Errorf("%s: Date: %q, want %q", path, got, want)
				}
			}
			time.Sleep(1500 * time.Millisecond)
		}
	})
}
