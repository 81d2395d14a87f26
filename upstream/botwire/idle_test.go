package botwire_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
)

const (
	stored = `{"namespace":"ns","key":"k","stored":true}`
	held   = `{"namespace":"ns","key":"k","value":"v","created_at":1,"updated_at":2}`
)

// receive reads a request to its end.
func receive(in *bufio.Reader) (method, body string, err error) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return "", "", err
	}
	b, err := io.ReadAll(r.Body)
	return r.Method, string(b), err
}

// confirm answers a request as BotWire does.
func confirm(out io.Writer, method string) error {
	body := map[string]string{http.MethodPut: stored, http.MethodGet: held}[method]
	_, err := fmt.Fprintf(out, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

// contract 15: a write goes only on a connection that no server has closed meanwhile for being idle. A read goes on an
// older one, too, which then is good for a write.
func TestAWriteTakesNoConnectionThatWasIdleForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connections := 0
		c := clientOf(t, func(context.Context) (net.Conn, error) {
			connections++
			near, far := net.Pipe()
			go func() {
				defer func() { _ = far.Close() }()
				for in := bufio.NewReader(far); ; {
					method, _, err := receive(in)
					if err != nil || confirm(far, method) != nil {
						return
					}
				}
			}()
			return near, nil
		})
		defer c.Close()
		read := func() error { _, err := c.Get(t.Context(), key("k")); return err }
		write := func() error { return put(t.Context(), c, "v") }
		for i, step := range []struct {
			after time.Duration
			does  func() error
			want  int
		}{
			{0, write, 1},
			{1400 * time.Millisecond, write, 1},
			{1600 * time.Millisecond, write, 2},
			{time.Minute, read, 2},
			{0, write, 2},
			{1600 * time.Millisecond, read, 2},
			{1400 * time.Millisecond, write, 2},
			{5 * time.Second, write, 3},
		} {
			time.Sleep(step.after)
			if err := step.does(); err != nil || connections != step.want {
				t.Errorf("step %d: %d connections, want %d; %v", i, connections, step.want, err)
			}
		}
	})
}

// idlers is how many connections upstream closes while they are idle.
const idlers = 60

// tcp is an upstream on loopback.
type tcp struct {
	address string

	mu    sync.Mutex
	conns []*net.TCPConn
	got   map[string]int // how often it has read a request with this body
}

// listen starts an upstream. For each request that it has read, answers is called, with how many requests it has read
// before on that connection; false ends the connection's goroutine.
func listen(t *testing.T, answers func(conn *net.TCPConn, before int) bool) *tcp {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &tcp{address: l.Addr().String(), got: make(map[string]int)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			accepted, err := l.Accept()
			if err != nil {
				return
			}
			conn := accepted.(*net.TCPConn)
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			serving.Go(func() {
				in := bufio.NewReader(conn)
				for n := 0; ; n++ {
					_, body, err := receive(in)
					if err != nil {
						return
					}
					s.mu.Lock()
					s.got[body]++
					s.mu.Unlock()
					if !answers(conn, n) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.end(false)
		serving.Wait()
	})
	return s
}

// end ends all connections, with a FIN or an RST.
func (s *tcp) end(resets bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		end(conn, resets)
	}
	s.conns = nil
}

func end(conn *net.TCPConn, resets bool) {
	if resets {
		_ = conn.SetLinger(0) // fails if it is closed already
	}
	_ = conn.Close()
}

func (s *tcp) client(t *testing.T, dial func(context.Context) (net.Conn, error)) *botwire.Client {
	c := botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: "http", Host: s.address}, Timeout: forEver, Concurrency: idlers, UserAgent: "test", Dial: dial,
	})
	t.Cleanup(c.Close)
	return c
}

// writeAll writes with idlers requests at once, and counts what became of them.
func writeAll(ctx context.Context, c *botwire.Client, value string) map[string]int {
	failed := make([]upstream.Error, idlers)
	var writers sync.WaitGroup
	for i := range failed {
		writers.Go(func() { failed[i] = failureOf(put(ctx, c, fmt.Sprint(value, i))) })
	}
	writers.Wait()
	became := make(map[string]int)
	for _, f := range failed {
		became[strings.TrimSpace(f.Verdict.String()+" "+f.Reason)]++
	}
	return became
}

// blind is a client's connection whose owner sees that upstream has closed it only once it may.
type blind struct {
	*net.TCPConn
	of     *blinds
	over   atomic.Bool // upstream has closed it
	sees   func()      // from then on
	seen   <-chan struct{}
	closed chan struct{} // by the owner
}

type blinds struct {
	ended   chan struct{} // has an element for each that upstream has closed
	conns   sync.Map      // by local address
	written bool          // the owner may see it once it has written again; set while nobody writes
}

func (b *blinds) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	seen := make(chan struct{})
	c := &blind{TCPConn: conn.(*net.TCPConn), of: b, sees: sync.OnceFunc(func() { close(seen) }), seen: seen, closed: make(chan struct{})}
	b.conns.Store(conn.LocalAddr().String(), c)
	return c, nil
}

func (c *blind) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if err != nil {
		c.over.Store(true)
		c.of.ended <- struct{}{}
		<-c.seen
	}
	return n, err
}

func (c *blind) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if c.of.written && c.over.Load() {
		c.sees()
		<-c.closed // before the owner has learnt that it has written
	}
	return n, err
}

func (c *blind) Close() error {
	err := c.TCPConn.Close()
	c.sees()
	close(c.closed) // net/http closes each connection once
	return err
}

// together confirms the first requests of idlers connections once all of them have come, and all later ones at once.
func together() func(*net.TCPConn, int) bool {
	var first sync.WaitGroup
	first.Add(idlers)
	var conns atomic.Int32
	return func(conn *net.TCPConn, before int) bool {
		if before == 0 && conns.Add(1) <= idlers {
			first.Done()
			first.Wait()
		}
		return confirm(conn, http.MethodPut) == nil
	}
}

// contract 15: upstream closes all idle connections, and the writes get them before botwired has seen that. They are
// made again at once, whether botwired sees it before it writes or after.
func TestAConnectionThatUpstreamHasClosed(t *testing.T) {
	for _, row := range []struct {
		name            string
		resets, written bool
	}{{"FIN", false, false}, {"RST", true, false}, {"FIN, seen after the write", false, true}, {"RST, seen after the write", true, true}} {
		t.Run(row.name, func(t *testing.T) {
			if row.written && !row.resets && runtime.GOOS != "linux" {
				t.Skip("only Linux says what upstream has received")
			}
			s, b := listen(t, together()), &blinds{ended: make(chan struct{}, 10*idlers)}
			c := s.client(t, func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, s.address) })
			confirmed := map[string]int{"confirmed": idlers}
			if diff := cmp.Diff(confirmed, writeAll(t.Context(), c, "first")); diff != "" {
				t.Fatal(diff)
			}
			s.end(row.resets)
			for range idlers {
				<-b.ended
			}
			b.written = row.written
			ctx, old := t.Context(), new(atomic.Int32)
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
				found, ok := b.conns.Load(info.Conn.LocalAddr().String())
				if !ok || !found.(*blind).over.Load() {
					return
				}
				if old.Add(1); !row.written {
					found.(*blind).sees()
					<-found.(*blind).closed
				}
			}})
			if diff := cmp.Diff(confirmed, writeAll(ctx, c, "second")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := old.Load(); n < idlers {
				t.Errorf("%d writes got an old connection", n)
			}
			s.wantOnce(t)
		})
	}
}

// wantOnce checks that upstream has read no request twice.
func (s *tcp) wantOnce(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for body, n := range s.got {
		if n != 1 {
			t.Errorf("%.40q has come %d times", body, n)
		}
	}
}

// contract 14: upstream has read the request, or some of it, and then closes the connection, or resets it. However
// little of it is acknowledged by then, it may land, and is not made again.
func TestAConnectionThatUpstreamClosesOnceItHasReadTheRequest(t *testing.T) {
	for name, resets := range map[string]bool{"FIN": false, "RST": true} {
		for size, value := range map[string]string{"small": "v", "large": strings.Repeat("v", 100_000)} {
			t.Run(name+", "+size, func(t *testing.T) {
				const before = 20 // answers, so that the server's kernel acknowledges late
				s := listen(t, func(conn *net.TCPConn, n int) bool {
					if n%(before+1) == before {
						end(conn, resets)
						return false
					}
					return confirm(conn, http.MethodPut) == nil
				})
				c := s.client(t, nil)
				for round := range idlers {
					for i := range before + 1 {
						failed := failureOf(put(t.Context(), c, fmt.Sprint(value, round, "/", i)))
						if want := map[bool]upstream.Verdict{i == before: upstream.Unanswered}[true]; failed.Verdict != want {
							t.Fatalf("round %d, write %d: %v (%s), want %v", round, i, failed.Verdict, failed.Reason, want)
						}
					}
				}
				s.wantOnce(t)
			})
		}
	}
}

// Whenever upstream closes its connections, what it has read is not made again.
func TestConnectionsThatUpstreamClosesUnderWrites(t *testing.T) {
	for name, resets := range map[string]bool{"FIN": false, "RST": true} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, func(conn *net.TCPConn, _ int) bool { return confirm(conn, http.MethodPut) == nil })
			c := s.client(t, nil)
			for round := range 20 {
				writeAll(t.Context(), c, fmt.Sprint("first", round, "/"))
				var closing sync.WaitGroup
				closing.Go(func() { s.end(resets) })
				for became := range writeAll(t.Context(), c, fmt.Sprint("second", round, "/")) {
					if became != "confirmed" && became != "unanswered upstream closed the connection without an answer" {
						t.Errorf("some are %s", became)
					}
				}
				closing.Wait()
			}
			s.wantOnce(t)
		})
	}
}
