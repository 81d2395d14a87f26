package fastpath_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/pipe"
)

// A request sent just as the server begins to close is answered, on a connection in use and on a new one.
func TestShutdownAnswersWhatHasBeenSent(t *testing.T) {
	simple, quick := request("PUT", "/memory/quick/k", "abc"), request("GET", "/memory/quick/k", "")
	for name, test := range map[string]struct {
		before string // the earlier request on the connection
		after  time.Duration
		text   string
	}{
		"in use":           {quick, 10 * time.Millisecond, simple},
		"lent and back":    {request("GET", "/other", ""), 10 * time.Millisecond, simple},
		"new":              {"", 200 * time.Millisecond, simple},
		"in use, not ours": {quick, 10 * time.Millisecond, request("GET", "/other", "")},
		"in use, chunked":  {quick, 10 * time.Millisecond, chunked},
		"new, not ours":    {"", 200 * time.Millisecond, request("GET", "/other", "")},
		"new, chunked":     {"", 200 * time.Millisecond, chunked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, nil)
				c := w.dial(t)
				if test.before != "" {
					exchange(t, c, test.before, 1)
				}
				synctest.Wait()
				down := make(chan error, 1)
				go func() { down <- w.server.Shutdown(context.Background()) }()
				time.Sleep(test.after)
				wantLastAnswer(t, c, test.text)
				if err := <-down; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The server accepts connections while it ends each one with an answer.
func TestEndConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil)
		fast, lent, given := w.dial(t), w.dial(t), w.dial(t)
		exchange(t, fast, request("GET", "/memory/quick/k", ""), 1)
		exchange(t, lent, request("GET", "/other", ""), 1)
		exchange(t, given, chunked, 1)
		w.server.EndConnections()
		time.Sleep(time.Minute) // no connection is closed before it has had an answer
		wantLastAnswer(t, fast, request("GET", "/memory/quick/k", ""))
		wantLastAnswer(t, lent, request("GET", "/other", ""))
		wantLastAnswer(t, given, chunked)
		for _, text := range []string{request("GET", "/memory/later/k", ""), request("GET", "/other", ""), chunked} {
			wantLastAnswer(t, w.dial(t), text)
		}
	})
}

// wantLastAnswer makes a request, and checks that the answer ends the connection.
func wantLastAnswer(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if got := exchange(t, c, text, 1)[0]; !strings.Contains(got, "200 ") || !strings.Contains(got, "close=true") {
		t.Errorf("the last answer is %s", got)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stays: %v", err)
	}
}

// A newcomer that is accepted only because the server closes is closed too.
func TestCloseWaitsForNoNewcomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWith(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			func(o *fastpath.Options) { o.MaxConns = 1 })
		busy := w.dial(t)
		_, _ = io.WriteString(busy, request("GET", "/memory/later/k", ""))
		synctest.Wait()
		newcomer := w.dial(t)
		go func() {
			whole := request("PUT", "/memory/quick/k", "abc")
			_, _ = io.WriteString(newcomer, whole[:len(whole)-1]) // the server closes the connection
		}()
		synctest.Wait()
		began := time.Now()
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("closing took %s", took)
		}
	})
}

// The last answer arrives whole, even if the caller has sent more requests, which nobody reads, and is slow.
// Closing the connection over unread requests would lose the answer.
func TestLastAnswerIsWhole(t *testing.T) {
	for name, path := range map[string]string{"simple": "/memory/later/k", "lent": "/other", "given": "/other"} {
		t.Run(name, func(t *testing.T) {
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			w := startOn(t, listener, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(large)))
				_, _ = w.Write(large)
			}, func(*fastpath.Options) {})
			c, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.(*net.TCPConn).SetReadBuffer(4 << 10) // a smaller window shows it more often
			w.server.EndConnections()
			text := request("GET", path, "")
			if name == "given" {
				text = chunked
			}
			if _, err := io.WriteString(c, strings.Repeat(text, 200)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			down := make(chan error, 1)
			go func() { down <- w.server.Shutdown(context.Background()) }()
			time.Sleep(50 * time.Millisecond)
			answers(t, bufio.NewReader(c), 1)
			if err := <-down; err != nil {
				t.Error(err)
			}
		})
	}
}

// hooked is a listener whose connections call around when their reads are to end at once.
type hooked struct {
	net.Listener
	around func(interrupt func() error) error
}

func (l hooked) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return hookedConn{c, l.around}, err
}

type hookedConn struct {
	net.Conn
	around func(interrupt func() error) error
}

func (c hookedConn) SetReadDeadline(at time.Time) error {
	set := func() error { return c.Conn.SetReadDeadline(at) }
	if at.Equal(time.Unix(1, 0)) {
		return c.around(set)
	}
	return set()
}

// A request that comes just as Shutdown interrupts the wait for one keeps its body, also if net/http reads it.
func TestShutdownInterruptsNoBody(t *testing.T) {
	const text = "POST /other HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
	listener, handling, interrupted := pipe.Listen(), make(chan struct{}), make(chan struct{})
	c := make(chan net.Conn, 1)
	around := func(interrupt func() error) error {
		select {
		case c := <-c:
			defer close(interrupted)
			_, _ = io.WriteString(c, text[:len(text)-2]) // the answer shows whether it arrived
		default:
			return interrupt()
		}
		for range 10_000 { // turns for net/http to begin, if it can
			select {
			case <-handling:
				return interrupt()
			default:
				runtime.Gosched()
			}
		}
		return interrupt()
	}
	w := startOn(t, hooked{listener, around}, func(w http.ResponseWriter, r *http.Request) {
		close(handling)
		<-interrupted
		echo(w, r)
	}, func(*fastpath.Options) {})
	caller := dial(t, listener)
	exchange(t, caller, request("GET", "/memory/quick/k", ""), 1)
	c <- caller
	down := make(chan error, 1)
	go func() { down <- w.server.Shutdown(context.Background()) }()
	<-interrupted
	wantLastAnswer(t, caller, text[len(text)-2:])
	if err := <-down; err != nil {
		t.Error(err)
	}
}
