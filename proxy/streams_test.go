package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/internal/sse"
)

// audience is a caller of a stream, over a connection inside the test's bubble.
type audience struct {
	t      *testing.T
	path   string
	status int
	header http.Header
	body   string // of an answer that is not a stream
	leave  func()

	mu     sync.Mutex
	lines  int
	lastID string
	events []sse.Event
	err    error // the error that ended the stream
}

// listener serves s as the daemon does, with its limits, until the test ends.
func (s *sidecar) listener() *pipe.Listener {
	l := pipe.Listen()
	server := &http.Server{Handler: s.server, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	s.t.Cleanup(func() {
		if err := errors.Join(server.Close(), l.Close()); err != nil {
			s.t.Error(err)
		}
		<-ended
	})
	return l
}

// listen opens a stream, and returns once it has begun.
func (s *sidecar) listen(l *pipe.Listener, target string, headers ...string) *audience {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	a := &audience{t: s.t, path: "/_botwired/" + strings.SplitN(target, "?", 2)[0], leave: cancel}
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/_botwired/"+target, http.NoBody)
	noError(s.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) },
	}
	answer, err := transport.RoundTrip(r)
	noError(s.t, err)
	a.status, a.header = answer.StatusCode, answer.Header
	if a.status != http.StatusOK {
		var body bytes.Buffer
		_, err := body.ReadFrom(answer.Body)
		noError(s.t, errors.Join(err, answer.Body.Close()))
		a.body = body.String()
	}
	if err := described().check(http.MethodGet, a.path, a.status, a.header, []byte(a.body)); err != nil {
		s.t.Error(err)
	}
	if a.status != http.StatusOK {
		return a
	}
	go a.read(answer)
	synctest.Wait()
	return a
}

func (a *audience) read(answer *http.Response) {
	defer answer.Body.Close()
	from := sse.NewReader(answer.Body, 1<<20)
	from.Heard = func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lines, a.lastID = a.lines+1, from.LastID
	}
	for {
		e, err := from.Next()
		a.mu.Lock()
		if err != nil {
			a.err = err
			a.mu.Unlock()
			return
		}
		a.events = append(a.events, e)
		a.mu.Unlock()
		if err := described().checkEvent(a.path, e); err != nil {
			a.t.Errorf("event %s %s: %v", e.Name, e.Data, err)
		}
	}
}

// take returns the events since the last call, including those still gathering.
func (a *audience) take() []sse.Event {
	time.Sleep(2 * streamPace)
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	events := a.events
	a.events = nil
	return events
}

// ended returns the error that ended the stream; nil if it goes on.
func (a *audience) ended() error {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// heard returns the number of lines so far.
func (a *audience) heard() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lines
}

// last returns the ID to resume after.
func (a *audience) last() string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastID
}

// read decodes the data of an event.
func read[T any](t *testing.T, e sse.Event) (doc T) {
	t.Helper()
	from := json.NewDecoder(bytes.NewReader(e.Data))
	from.DisallowUnknownFields()
	if err := from.Decode(&doc); err != nil {
		t.Fatalf("%v in %s", err, e.Data)
	}
	return doc
}

// Both streams follow the same rules.
var (
	streams     = []string{"events", "monitor"}
	mostReaders = map[string]int{"events": eventsReaders, "monitor": monitorReaders}
)

// A stream outlasts the server's limits on a request, and shows every 15 seconds that it lives.
func TestAStreamLasts(t *testing.T) {
	for _, stream := range streams {
		inBubble(t, func(t *testing.T, s *sidecar) {
			a := s.listen(s.listener(), stream)
			if a.header.Get("Content-Type") != sse.ContentType || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s has the headers %v", stream, a.header)
			}
			for range 100 {
				before := a.heard()
				time.Sleep(heartbeat)
				synctest.Wait()
				if a.heard() == before {
					t.Fatalf("%s is silent for %s, and has ended with %v", stream, heartbeat, a.ended())
				}
			}
			s.put(id("n", "k"), "v")
			if got := a.take(); len(got) != 1 {
				t.Errorf("%s has told of %d events", stream, len(got))
			}
		})
	}
}

func TestAStreamEndsWithTheDaemon(t *testing.T) {
	for _, stream := range streams {
		inBubble(t, func(t *testing.T, s *sidecar) {
			a := s.listen(s.listener(), stream)
			if err := a.ended(); err != nil {
				t.Fatal(err)
			}
			s.server.EndWaits()
			if a.ended() == nil {
				t.Errorf("%s goes on", stream)
			}
			s.server.Close() // and does not wait for the streams
		})
	}
}

// Readers are bounded, and one that leaves makes room.
func TestReadersOfStreamsAreBounded(t *testing.T) {
	for stream, most := range mostReaders {
		inBubble(t, func(t *testing.T, s *sidecar) {
			l := s.listener()
			var first *audience
			for i := range most {
				a := s.listen(l, stream)
				if a.status != http.StatusOK {
					t.Fatalf("reader %d of %s: %d", i+1, stream, a.status)
				}
				first = a
			}
			a := s.listen(l, stream)
			if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "5" || !strings.Contains(a.body, "too many readers") {
				t.Errorf("one more reader of %s: %d %v %s", stream, a.status, a.header, a.body)
			}
			first.leave()
			synctest.Wait()
			if a := s.listen(l, stream); a.status != http.StatusOK {
				t.Errorf("once a reader of %s has left: %d", stream, a.status)
			}
		})
	}
}

func TestStreamsAnswerHEAD(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		for _, stream := range streams {
			w := s.do(http.MethodHead, "/_botwired/"+stream, "")
			wantStatus(t, w, http.StatusOK)
			wantHeader(t, w, "Content-Type", sse.ContentType)
			if w.Body.Len() > 0 {
				t.Errorf("HEAD of %s has the body %q", stream, w.Body)
			}
		}
	})
}

func TestStreamsRefuseOtherParameters(t *testing.T) {
	s := newSidecar(t)
	for _, target := range []string{"events?values=true", "events?namespace=", "events?namespace=a+b", "monitor?after=1", "monitor?values=true", "monitor?namespace="} {
		wantStatus(t, s.get("/_botwired/"+target), http.StatusBadRequest)
	}
}

// A caller that stops reading loses its stream, and holds up nobody.
func TestASlowReaderOfAStream(t *testing.T) {
	for stream, most := range mostReaders {
		inBubble(t, func(t *testing.T, s *sidecar) {
			l := s.listener()
			conn, err := l.Dial(t.Context())
			noError(t, err)
			defer conn.Close()
			_, err = conn.Write([]byte("GET /_botwired/" + stream + " HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			noError(t, err)
			began := time.Now()
			for i := range 200 { // more than all buffers on the way hold
				s.put(id("n", "k"), strings.Repeat("v", i))
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("the callers have waited %s for a reader of %s", took, stream)
			}
			time.Sleep(writePatience + time.Second)
			synctest.Wait()
			for i := range most { // it has freed its place
				if a := s.listen(l, stream); a.status != http.StatusOK {
					t.Fatalf("reader %d of %s: %d", i+1, stream, a.status)
				}
			}
		})
	}
}
