package fastpath_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/pipe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server under test. It counts who answered.
type world struct {
	listener               *pipe.Listener
	server                 *fastpath.Server
	quick, waited, handled atomic.Int64
	admitted               atomic.Int64 // how often the guard was asked
	served                 chan error
}

const readHeader, readAll, write, idle = 10 * time.Second, time.Minute, 50 * time.Second, 2 * time.Minute

// start starts a server. Unless Host is stranger, it answers /memory/quick at once and /memory/later later,
// both through handle. handle answers everything else; the default one echoes the request.
func start(t *testing.T, handle http.HandlerFunc) *world {
	t.Helper()
	return startWith(t, handle, func(*fastpath.Options) {})
}

func startWith(t *testing.T, handle http.HandlerFunc, adjust func(*fastpath.Options)) *world {
	t.Helper()
	listener := pipe.Listen()
	w := startOn(t, listener, handle, adjust)
	w.listener = listener
	return w
}

func startOn(t *testing.T, listener net.Listener, handle http.HandlerFunc, adjust func(*fastpath.Options)) *world {
	t.Helper()
	w := &world{served: make(chan error, 1)}
	if handle == nil {
		handle = echo
	}
	opts := fastpath.Options{
		HTTP: &http.Server{
			Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				w.handled.Add(1)
				handle(rw, r)
			}),
			ReadHeaderTimeout: readHeader, ReadTimeout: readAll, WriteTimeout: write, IdleTimeout: idle,
		},
		Admits: func(r *http.Request) bool {
			w.admitted.Add(1)
			return r.Host != "stranger"
		},
		BodyMatters: func(r *fastpath.Request) bool { return !strings.HasSuffix(r.Path, "/unread") },
		Answer: func(r *fastpath.Request, dst []byte) ([]byte, fastpath.Later) {
			if strings.HasPrefix(r.Path, "/memory/later") {
				return nil, w.later(r, handle)
			}
			if !strings.HasPrefix(r.Path, "/memory/quick") {
				return nil, nil
			}
			w.quick.Add(1)
			if strings.HasSuffix(r.Path, "/panic") {
				panic("secret")
			}
			body := r.Body
			if strings.HasSuffix(r.Path, "/large") {
				body = large
			}
			return fmt.Appendf(dst, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), r.Date, body), nil
		},
		Logger: slog.New(slog.DiscardHandler),
	}
	adjust(&opts)
	w.server = fastpath.New(listener, opts)
	go func() { w.served <- w.server.Serve() }()
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return w
}

// later lets handle answer, later, a request that says as much as there is of it.
func (w *world) later(r *fastpath.Request, handle http.HandlerFunc) fastpath.Later {
	method, path, body := r.Method, r.Path, bytes.Clone(r.Body)
	return func(ctx context.Context, rw http.ResponseWriter) {
		w.waited.Add(1)
		request, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		request.Host = "h"
		handle(rw, request)
	}
}

func (w *world) dial(t *testing.T) net.Conn { return dial(t, w.listener) }

func dial(t *testing.T, l *pipe.Listener) net.Conn {
	t.Helper()
	c, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// chunked is a request whose end only net/http can find.
const chunked = "POST /other HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n"

// large is an answer larger than any buffer.
var large = bytes.Repeat([]byte("large"), 20_000)

func echo(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "/unread") {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "unread")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%s %s %s %s %v %d %q", r.Method, r.URL, r.Host, r.Header.Get("Authorization"), r.Header, r.ContentLength, body)
}

func request(method, path, body string, headers ...string) string {
	head := method + " " + path + " HTTP/1.1\r\nHost: h\r\n"
	for _, h := range headers {
		head += h + "\r\n"
	}
	if body != "" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return head + "\r\n" + body
}

// exchange sends a text in one piece and reads n answers.
func exchange(t *testing.T, c net.Conn, text string, n int) []string {
	t.Helper()
	go func() { _, _ = io.WriteString(c, text) }() // the answers show whether it arrived
	return answers(t, bufio.NewReader(c), n)
}

func answers(t *testing.T, from *bufio.Reader, n int) (out []string) {
	t.Helper()
	for range n {
		r, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatalf("after %d answers: %v", len(out), err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		if date, err := http.ParseTime(r.Header.Get("Date")); err != nil || time.Since(date).Abs() > 30*time.Second {
			t.Errorf("Date: %q", r.Header.Get("Date"))
		}
		delete(r.Header, "Date")
		out = append(out, fmt.Sprintf("%d %v close=%t %s", r.StatusCode, r.Header, r.Close, body))
	}
	return out
}

// The fast path answers simple requests, and net/http the others. From a request whose end only net/http can
// find, net/http keeps the connection, with every byte.
func TestWhoAnswers(t *testing.T) {
	quick := request("PUT", "/memory/quick/k", "abc")
	slow, later := request("GET", "/memory/slow/k", ""), request("GET", "/memory/later/k", "")
	odd := request("GET", "/other", "")
	for _, test := range []struct {
		name, text    string
		quick, waited int64
		answers       []string
	}{
		{"quick ones", quick + quick, 2, 0, []string{"abc", "abc"}},
		{"a slow one", slow, 0, 0, []string{"GET /memory/slow/k h"}},
		{"one that waits", later, 0, 1, []string{"GET /memory/later/k h"}},
		{"waiting between quick ones", quick + later + later + slow + quick, 2, 2, []string{"abc", "GET /memory/later/k h", "GET /memory/later/k h", "GET /memory/slow/k h", "abc"}},
		{"slow between quick ones", quick + slow + quick, 2, 0, []string{"abc", "GET /memory/slow/k h", "abc"}},
		{"an odd one", odd, 0, 0, []string{"GET /other h"}},
		{"odd ones between quick ones", quick + odd + quick + odd + odd + later, 2, 1, []string{"abc", "GET /other h", "abc", "GET /other h", "GET /other h", "GET /memory/later/k h"}},
		{"an odd one with a body", request("POST", "/other", "xyz") + quick, 1, 0, []string{`"xyz"`, "abc"}},
		{"an odd one with a body that nobody reads", request("POST", "/unread", strings.Repeat("x", 200_000)) + quick, 1, 0, []string{"unread", "abc"}},
		{"a header that is not known", request("GET", "/memory/quick/k", "", "Cache-Control: no-cache") + quick, 1, 0, []string{"GET /memory/quick/k h", "abc"}},
		{
			"headers of tracers and SDKs", request("PUT", "/memory/quick/k", "abc", "traceparent: 00-1-1-01", "baggage: a=b", "X-Stainless-OS: x", "priority: u=1"), 1, 0,
			[]string{"abc"},
		},
		{"a broken escape", request("GET", "/memory/n/a%zz", "") + quick, 1, 0, []string{"GET /memory/n/a%25zz h", "abc"}},
		{"a broken escape, and the connection ends", request("GET", "/memory/n/a%zz", "", "Connection: close"), 0, 0, []string{"GET /memory/n/a%25zz h"}},
		{"one in chunks ends the simple ones", quick + chunked + quick, 1, 0, []string{"abc", `"xyz"`, "PUT /memory/quick/k h"}},
		{
			"a large body", request("PUT", "/memory/quick/k", strings.Repeat("x", 40_000)) + slow, 0, 0,
			[]string{"PUT /memory/quick/k h", "GET /memory/slow/k h"},
		},
		{
			"the largest simple bodies", strings.Repeat(request("PUT", "/memory/quick/k", strings.Repeat("x", 32<<10)), 3), 3, 0,
			[]string{"xxx", "xxx", "xxx"},
		},
		{
			"a stranger", strings.Replace(quick, "Host: h", "Host: stranger", 1) + quick, 1, 0,
			[]string{"PUT /memory/quick/k stranger", "abc"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t, nil)
			c := w.dial(t)
			got := exchange(t, c, test.text, len(test.answers))
			for i, want := range test.answers {
				if !strings.Contains(got[i], want) {
					t.Errorf("answer %d is %.200s, want %s", i, got[i], want)
				}
			}
			quick, waited, handled := w.quick.Load(), w.waited.Load(), w.handled.Load()
			if quick != test.quick || waited != test.waited || quick+waited+handled != int64(len(test.answers)) {
				t.Errorf("%d answered at once, %d later and %d by the handler, want %d and %d of the former",
					quick, waited, handled, test.quick, test.waited)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A caller cannot tell who serves it: simple requests get the same answers as from net/http.
func TestTheSameAsNetHTTP(t *testing.T) {
	handle := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header()["Cache-Status"] = []string{"one", "two"}
		w.Header().Set("Content-Type", "application/json")
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || local == nil {
			t.Error("the request does not know where it came to")
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/empty"):
		case strings.HasSuffix(r.URL.Path, "/close"):
			w.Header().Set("Connection", "close")
			echo(w, r)
		case strings.HasSuffix(r.URL.Path, "/large"):
			w.Header().Set("Content-Length", strconv.Itoa(len(large)))
			if n, err := w.Write(large); n != len(large) || err != nil {
				t.Errorf("%d bytes written: %v", n, err)
			}
			if _, err := w.Write([]byte("more")); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("more than was announced is written: %v", err)
			}
		case strings.HasSuffix(r.URL.Path, "/refused"):
			w.WriteHeader(http.StatusServiceUnavailable)
			fallthrough
		default:
			echo(w, r)
		}
	}
	for _, text := range []string{
		request("GET", "/memory/n/k", ""), request("GET", "/memory/n?limit=3", ""), request("GET", "/memory/n/empty", ""),
		request("GET", "/memory/n/large", ""), request("GET", "/memory/n/close", ""),
		request("PUT", "/memory/n/refused", `{"value":"x"}`, "Content-Type: application/json", "Authorization: Bearer x"),
		request("DELETE", "/memory/n/k", "", "Content-Length: 0", "User-Agent: u", "Accept: */*"),
	} {
		w := start(t, handle)
		c := w.dial(t)
		here := exchange(t, c, text, 1)
		if _, err := c.Write([]byte("G")); (err != nil) != strings.Contains(here[0], "close=true") {
			t.Errorf("%q: after %.200s the connection takes more with %v", text, here, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		theirs := pipe.Listen()
		server := &http.Server{Handler: http.HandlerFunc(handle), ReadHeaderTimeout: readHeader}
		go func() { _ = server.Serve(theirs) }() // Close ends it
		c = dial(t, theirs)
		if diff := cmp.Diff(exchange(t, c, text, 1), here); diff != "" {
			t.Errorf("%q: net/http's answer (-) and ours (+):\n%s", text, diff)
		}
		if err := errors.Join(c.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Requests may arrive in pieces of any size.
func TestArrivingInPieces(t *testing.T) {
	w := start(t, nil)
	c := w.dial(t)
	text := request("PUT", "/memory/quick/k", "abc") + request("GET", "/memory/slow/k", "") + request("PATCH", "/odd", "xyz")
	go func() {
		for i := range len(text) {
			if _, err := c.Write([]byte{text[i]}); err != nil {
				t.Errorf("after %d bytes: %v", i, err)
				return
			}
		}
	}()
	got := answers(t, bufio.NewReader(c), 3)
	for i, want := range []string{"abc", "GET /memory/slow/k", `"xyz"`} {
		if !strings.Contains(got[i], want) {
			t.Errorf("answer %d is %s, want %s", i, got[i], want)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// The guard is asked once for each caller in a row on a connection, on each connection
// again, and about everybody after Readmit.
func TestTheGuardIsAsked(t *testing.T) {
	w := start(t, nil)
	quick := request("GET", "/memory/quick/k", "")
	token := request("GET", "/memory/quick/k", "", "Authorization: Bearer x")
	for range 2 {
		c := w.dial(t)
		exchange(t, c, quick+quick+token+token+quick, 5)
		w.server.Readmit()
		exchange(t, c, quick+quick, 2)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := w.admitted.Load(); got != 8 {
		t.Errorf("the guard was asked %d times, want 8", got)
	}
}

// A panic ends only its request and its connection.
func TestAPanicEndsItsConnection(t *testing.T) {
	w := start(t, func(http.ResponseWriter, *http.Request) { panic("secret") })
	for _, path := range []string{"/memory/slow/k", "/memory/later/k", "/memory/quick/panic", "/other"} {
		c := w.dial(t)
		exchange(t, c, request("GET", "/memory/quick/k", "")+request("GET", path, ""), 1)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection did not end: %v", path, err)
		}
	}
	other := w.dial(t)
	exchange(t, other, request("GET", "/memory/quick/k", ""), 1)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// A handler learns that its caller has left. Bytes that a caller sends meanwhile are not lost.
func TestWhileARequestIsHandled(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	w := start(t, func(rw http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		select {
		case <-release:
			echo(rw, r)
		case <-r.Context().Done():
			begun <- struct{}{}
		}
	})
	for _, path := range []string{"/memory/slow/k", "/memory/later/k", "/other"} {
		c := w.dial(t)
		slow, quick := request("GET", path, ""), request("PUT", "/memory/quick/k", "abc")
		for range 3 {
			if _, err := io.WriteString(c, slow); err != nil {
				t.Fatal(err)
			}
			<-begun
			go func() {
				if _, err := c.Write([]byte(quick[:1])); err != nil {
					t.Error(err)
				}
				release <- struct{}{}
				if _, err := io.WriteString(c, quick[1:]); err != nil {
					t.Error(err)
				}
			}()
			got := answers(t, bufio.NewReader(c), 2)
			if !strings.Contains(got[0], "GET "+path) || !strings.HasSuffix(got[1], " abc") {
				t.Errorf("the answers are %q", got)
			}
		}
		if _, err := io.WriteString(c, slow); err != nil {
			t.Fatal(err)
		}
		<-begun
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-begun // the handler has noticed it
	}
}

// A caller that pipelines requests gets all answers, in order.
func TestPipelining(t *testing.T) {
	w := start(t, nil)
	c := w.dial(t)
	const n = 3000
	var text bytes.Buffer
	for i := range n {
		path := "/memory/quick/k"
		switch i % 100 {
		case 50:
			path = "/memory/quick/large"
		case 70:
			path = "/memory/slow/k"
		case 90:
			path = "/memory/later/k"
		case 30, 31:
			path = "/other"
		}
		text.WriteString(request("PUT", path, fmt.Sprintf("%08d", i)))
	}
	got := exchange(t, c, text.String(), n)
	for i := range n {
		want := fmt.Sprintf("%08d", i)
		if i%100 == 50 {
			want = string(large)
		}
		if !strings.HasSuffix(strings.TrimSuffix(got[i], `"`), want) {
			t.Fatalf("answer %d is %.100s", i, got[i])
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
