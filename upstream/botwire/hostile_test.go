package botwire_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
)

const (
	// hostileTimeout is upstream.timeout for an upstream whose answers never end.
	hostileTimeout = 100 * time.Millisecond
	// forEver is far longer than any attempt takes, even on a busy machine. It is upstream.timeout for
	// an upstream that answers at once.
	forEver = time.Minute
)

// Ways to keep a client waiting on a connection after reading the request's header.
var (
	silent = func(net.Conn) {}
	says   = func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) } // the client may be gone
	}
	// repeats sends a beginning, and then the same text again and again.
	repeats = func(begin, again string) func(net.Conn) {
		return func(c net.Conn) {
			_, err := io.WriteString(c, begin)
			for err == nil {
				time.Sleep(hostileTimeout / 20)
				_, err = io.WriteString(c, again)
			}
		}
	}
)

const chunkedBegins = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n"

// unheaded are ways in which the header of an answer never ends.
var unheaded = map[string]func(net.Conn){
	"silence":                            silent,
	"101":                                says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
	"101 to no protocol":                 says("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
	"101, and then bytes for ever":       repeats("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "x"),
	"101 to HTTP/2":                      says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
	"101 with a body":                    says("HTTP/1.1 101 Switching Protocols\r\nContent-Length: 500\r\n\r\n{"),
	"100 for ever":                       repeats("", "HTTP/1.1 100 Continue\r\n\r\n"),
	"103 for ever":                       repeats("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
	"103 with a body":                    repeats("", "HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\n{}"),
	"a status that drips":                repeats("HTTP/1.1 2", "0"),
	"a header that drips":                repeats("HTTP/1.1 200 OK\r\n", "X-A: b\r\n"),
	"a header without an end that drips": repeats("HTTP/1.1 200 OK\r\nX-A: ", "b"),
	"HTTP/2":                             says("\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
}

// endless are ways in which the body of an answer never ends.
var endless = map[string]func(net.Conn){
	"no body":                    says("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
	"a body that drips":          repeats("HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n", "{"),
	"a body without an end":      repeats("HTTP/1.1 200 OK\r\n\r\n", "{"),
	"chunks that drip":           repeats(chunkedBegins, "1\r\n{\r\n"),
	"a chunk without an end":     repeats(chunkedBegins+"ffff\r\n", "{"),
	"a chunk's size that drips":  repeats(chunkedBegins+"1;x=", "y"),
	"no last chunk":              says(chunkedBegins + "2\r\n{}\r\n"),
	"trailers that never end":    repeats(chunkedBegins+"2\r\n{}\r\n0\r\n", "X-A: b\r\n"),
	"a trailer that never ends":  repeats(chunkedBegins+"2\r\n{}\r\n0\r\nX-A: ", "b"),
	"an answer amid the request": says("HTTP/1.1 413 No\r\nContent-Length: 500\r\n\r\n{"),
	"a 401 that drips":           repeats("HTTP/1.1 401 No\r\nContent-Length: 50000\r\n\r\n", "{"),
	"a redirect that drips":      repeats("HTTP/1.1 302 No\r\nLocation: /\r\nContent-Length: 50000\r\n\r\n", "{"),
}

// connections counts the open connections that have had a request. A client whose time ends before it
// sends one, as on a busy machine, keeps its connection for the next.
type connections struct {
	mu   sync.Mutex
	open int
	gone sync.Cond
}

func (c *connections) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	c.gone.Broadcast()
}

func (c *connections) awaitNone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open > 0 {
		c.gone.Wait()
	}
}

// hostile listens on loopback, and keeps each client waiting. It reads only the header of each request.
func hostile(t *testing.T, timeout time.Duration, waits func(net.Conn)) (c *botwire.Client, conns *connections) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = new(connections)
	conns.gone.L = &conns.mu
	closing, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serveHostile(closing, conn, waits, conns) })
		}
	})
	t.Cleanup(func() { stop(); _ = l.Close(); serving.Wait() })
	c = botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: "http", Host: l.Addr().String()}, Timeout: timeout, Concurrency: 1, UserAgent: "test",
	})
	t.Cleanup(c.Close)
	return c, conns
}

func serveHostile(closing context.Context, conn net.Conn, waits func(net.Conn), conns *connections) {
	stop := context.AfterFunc(closing, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		return
	}
	conns.add(1)
	defer conns.add(-1)
	waits(conn)
	for b := make([]byte, 1<<10); ; time.Sleep(time.Millisecond) { // it reads the rest slowly
		if _, err := conn.Read(b); err != nil {
			return
		}
	}
}

// wantEnd checks that does returns, and that the connection ends then.
func wantEnd(t *testing.T, what string, conns *connections, does func()) {
	t.Helper()
	returned, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		func() { defer close(returned); does() }()
		conns.awaitNone()
	}()
	select {
	case <-returned:
	case <-time.After(forEver):
		t.Fatalf("%s has not ended", what)
	}
	select {
	case <-ended:
	case <-time.After(forEver):
		t.Fatalf("%s has left its connection open", what)
	}
}

// Upstream cannot make a request last longer than upstream.timeout.
func TestEveryRequestEnds(t *testing.T) {
	for _, ways := range []map[string]func(net.Conn){unheaded, endless} {
		for name, waits := range ways {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c, conns := hostile(t, hostileTimeout, waits)
				for what, request := range map[string]func() error{
					"a PUT":    func() error { return put(t.Context(), c, strings.Repeat("v", 100_000)) },
					"a DELETE": func() error { return remove(t.Context(), c) },
					"a GET":    func() error { _, err := c.Get(t.Context(), key("k")); return err },
					"a LIST":   func() error { _, _, err := c.List(t.Context(), "ns"); return err },
				} {
					var err error
					wantEnd(t, what, conns, func() { err = request() })
					if failed := failureOf(err); failed.Verdict == upstream.Confirmed || failed.Verdict == upstream.Permanent {
						t.Errorf("%s: %v (%s)", what, failed.Verdict, failed.Reason)
					}
				}
			})
		}
	}
}

// Upstream may carry out a write that it answers with a switch of protocols.
func TestASwitchOfProtocolsIsNoAnswer(t *testing.T) {
	c, conns := hostile(t, forEver, unheaded["101"])
	var err error
	wantEnd(t, "a PUT", conns, func() { err = put(t.Context(), c, "v") })
	if failed := failureOf(err); failed.Verdict != upstream.Unanswered || !strings.Contains(failed.Reason, "101") {
		t.Errorf("%v: %s", failed.Verdict, failed.Reason)
	}
}

// A forwarded request is answered within upstream.timeout if upstream sends no header. After the
// header, the answer may be a stream.
func TestEveryRequestThatIsPassedOnIsAnswered(t *testing.T) {
	for name, waits := range unheaded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, conns := hostile(t, hostileTimeout, waits)
			server := httptest.NewServer(botwire.NewForwarder(c, func() bool { return false }, slog.New(slog.DiscardHandler)))
			defer server.Close()
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				wantEnd(t, method, conns, func() { wantUnavailable(t, server, method, nil) })
			}
		})
	}
}

func wantUnavailable(t *testing.T, server *httptest.Server, method string, headers map[string]string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/x", http.NoBody)
	if method == http.MethodPost {
		r, err = http.NewRequestWithContext(t.Context(), method, server.URL+"/x", strings.NewReader("body"))
	}
	if err != nil {
		t.Error(err)
		return
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Errorf("%s: %v", method, err)
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s: %d, want 503", method, resp.StatusCode)
	}
}

// An HTTP/2 tunnel could bypass the journal with writes: botwired does not ask for one, and refuses one
// that upstream offers.
func TestOnlyWebSocketsArePassedOn(t *testing.T) {
	switches := func(protocol string) func(net.Conn) {
		return says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\nhello")
	}
	for _, protocol := range []string{"h2c", "x"} {
		c, conns := hostile(t, forEver, switches(protocol))
		server := httptest.NewServer(botwire.NewForwarder(c, func() bool { return false }, slog.New(slog.DiscardHandler)))
		wantEnd(t, protocol, conns, func() {
			wantUnavailable(t, server, http.MethodGet, map[string]string{"Connection": "Upgrade", "Upgrade": protocol})
		})
		server.Close()
	}
	c, conns := hostile(t, forEver, switches("websocket"))
	server := httptest.NewServer(botwire.NewForwarder(c, func() bool { return false }, slog.New(slog.DiscardHandler)))
	defer server.Close()
	wantEnd(t, "a web socket", conns, func() {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("%v, %v", resp, err)
			return
		}
		hello := make([]byte, 5)
		if _, err := io.ReadFull(in, hello); err != nil || string(hello) != "hello" {
			t.Errorf("%q, %v", hello, err)
		}
	})
}
