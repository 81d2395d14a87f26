package flush_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/botwire"
)

// call is a request that the fake upstream has received.
type call struct {
	at     time.Time
	host   string // that made the request
	method string
	id     journal.ID
	value  string
	n      int // earlier requests to the entry, except reads
}

func (c call) write() bool { return c.method != http.MethodGet }

// reply says how the fake treats a call. The zero value means as BotWire does.
type reply struct {
	status int         // instead of carrying the request out
	header http.Header // with status
	body   string      // with status
	hang   bool        // no answer; the client gives up
	cut    bool        // the connection is cut after the request was read
	after  time.Duration
	// late carries the request out this long after it came, even though it was not answered, or
	// answered differently.
	late    time.Duration
	applied bool // carried out at once, despite a missing or wrong answer
}

// fake is an upstream that can be slow, down, wrong and late. It runs inside a synctest bubble: its
// connections are pipes.
type fake struct {
	t        testing.TB
	server   *http.Server
	listener *pipe.Listener

	mu      sync.Mutex
	entries map[journal.ID]string
	calls   []call
	dials   []time.Time
	writes  map[journal.ID]int
	active  map[string]int // by host and entry
	running int
	peak    int // most concurrent requests

	// latency is the time between a request and its answer; the request is carried out halfway.
	latency time.Duration
	down    bool // connections are refused
	answer  func(call) reply
	// updated holds the times of the entries. While it is nil, the fake keeps none.
	updated map[journal.ID]time.Time
	// ahead is how far upstream's clock is ahead of each host's: all of upstream's times are shifted by
	// it for that host.
	ahead map[string]time.Duration
	// gateway is how far the clock is ahead that makes the Date of the answers.
	gateway time.Duration
	away    map[string]bool // hosts whose connections are refused
}

func newFake(t testing.TB) *fake {
	f := &fake{
		t: t, listener: pipe.Listen(), latency: 50 * time.Millisecond,
		entries: make(map[journal.ID]string), writes: make(map[journal.ID]int), active: make(map[string]int),
	}
	f.server = &http.Server{Handler: f, IdleTimeout: 5 * time.Second} // as BotWire's own server
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = f.server.Serve(f.listener) // always closed by the cleanup
	}()
	t.Cleanup(func() {
		_ = f.server.Close() // pipes close without an error
		<-served
		time.Sleep(time.Minute) // for busy handlers; it costs nothing in a bubble
	})
	return f
}

// set changes the fake's behaviour.
func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) dial(ctx context.Context, host string) (net.Conn, error) {
	f.mu.Lock()
	f.dials = append(f.dials, time.Now())
	down := f.down || f.away[host]
	f.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return f.listener.Dial(ctx)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	away := f.away[r.Host]
	f.mu.Unlock()
	if away {
		panic(http.ErrAbortHandler)
	}
	c := f.begin(r)
	defer f.end(c)
	f.mu.Lock()
	answer, latency := f.answer, f.latency
	f.mu.Unlock()
	var rep reply
	if answer != nil {
		rep = answer(c)
	}
	if rep.late > 0 {
		time.AfterFunc(rep.late, func() { f.apply(c) })
	}
	if rep.applied {
		f.apply(c)
	}
	f.reply(w, r, c, rep, latency)
}

func (f *fake) reply(w http.ResponseWriter, r *http.Request, c call, rep reply, latency time.Duration) {
	switch {
	case rep.hang:
		<-r.Context().Done()
	case rep.cut:
		panic(http.ErrAbortHandler)
	case rep.status != 0:
		time.Sleep(latency + rep.after)
		for name, values := range rep.header {
			w.Header()[name] = values
		}
		w.WriteHeader(rep.status)
		_, _ = io.WriteString(w, rep.body) // the client may be gone
	default:
		time.Sleep(latency / 2)
		status, body := f.apply(c)
		f.date(w, c)
		time.Sleep(latency - latency/2 + rep.after)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
	}
}

// date gives the answer the current Date, by upstream's clock as the caller sees it.
func (f *fake) date(w http.ResponseWriter, c call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(f.ahead[c.host]+f.gateway).UTC().Format(http.TimeFormat))
}

func (f *fake) begin(r *http.Request) call {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/memory/"), "/", 2)
	c := call{at: time.Now(), host: r.Host, method: r.Method, id: journal.ID{Namespace: parts[0]}}
	if len(parts) == 2 {
		c.id.Key = parts[1]
	}
	var doc struct{ Value string }
	if r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
			f.t.Errorf("a request with a body that is not JSON: %v", err)
		}
	}
	c.value = doc.Value
	f.mu.Lock()
	defer f.mu.Unlock()
	c.n = f.writes[c.id]
	if c.write() {
		f.writes[c.id]++
	}
	f.calls = append(f.calls, c)
	f.running++
	f.peak = max(f.peak, f.running)
	if f.active[c.host+" "+c.id.String()]++; f.active[c.host+" "+c.id.String()] > 1 {
		f.t.Errorf("two requests for %s at once", c.id)
	}
	return c
}

func (f *fake) end(c call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	f.active[c.host+" "+c.id.String()]--
}

// apply carries a request out and returns BotWire's answer.
func (f *fake) apply(c call) (status int, body any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	value, held := f.entries[c.id]
	name := func(more map[string]any) map[string]any {
		more["namespace"], more["key"] = c.id.Namespace, c.id.Key
		return more
	}
	switch {
	case c.method == http.MethodPut:
		f.put(c.id, c.value)
		return http.StatusOK, name(map[string]any{"stored": true, "bytes": len(c.value)})
	case !held:
		return http.StatusNotFound, map[string]any{"detail": "Key not found: " + c.id.String()}
	case c.method == http.MethodDelete:
		delete(f.entries, c.id)
		return http.StatusOK, name(map[string]any{"deleted": true})
	}
	updatedAt := 2.5
	if f.updated != nil {
		updatedAt = float64(f.updated[c.id].Add(f.ahead[c.host]).UnixMicro()) / 1e6
	}
	return http.StatusOK, name(map[string]any{"value": value, "created_at": 1.5, "updated_at": updatedAt})
}

// put stores a value, for another host or for a request. The caller holds mu.
func (f *fake) put(id journal.ID, value string) {
	f.entries[id] = value
	if f.updated != nil {
		f.updated[id] = time.Now()
	}
}

// foreign writes as a host that is not part of the test.
func (f *fake) foreign(id journal.ID, value string) { f.set(func(f *fake) { f.put(id, value) }) }

// requests returns the matching calls so far.
func (f *fake) requests(match func(call) bool) []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []call
	for _, c := range f.calls {
		if match(c) {
			out = append(out, c)
		}
	}
	return out
}

// in matches the calls for one namespace.
func in(namespace string) func(call) bool {
	return func(c call) bool { return c.id.Namespace == namespace }
}

func anything(call) bool { return true }

// holds returns the fake's value of an entry.
func (f *fake) holds(id journal.ID) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	value, ok := f.entries[id]
	return value, ok
}

func (f *fake) client(timeout time.Duration) *botwire.Client {
	return f.clientOf("upstream.test", timeout)
}

// clientOf returns the client of one of several hosts.
func (f *fake) clientOf(host string, timeout time.Duration) *botwire.Client {
	c := botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: "http", Host: host}, Timeout: timeout, Concurrency: 16, UserAgent: "test",
		Dial: func(ctx context.Context) (net.Conn, error) { return f.dial(ctx, host) },
	})
	f.t.Cleanup(c.Close)
	return c
}

// detail is an answer in BotWire's form that is not a confirmation.
func detail(status int) reply {
	return reply{status: status, body: fmt.Sprintf(`{"detail":"status %d"}`, status)}
}
