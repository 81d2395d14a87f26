package attach

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
)

// linkTest is a daemon that fails as real ones do, and a link to it.
type linkTest struct {
	t      *testing.T
	asked  atomic.Int32 // requests except the link's own
	fail   atomic.Int32 // how many of them fail
	cut    bool         // a failure is a cut connection, otherwise a daemon that is not ready
	cuts   atomic.Int32 // how many of the link's own requests are cut
	first  func()       // called at the first request, if not nil
	full   atomic.Bool  // its journal takes no writes
	stops  atomic.Int32 // how many of the link's own requests find it stopping
	client *http.Client
}

func newLinkTest(t *testing.T, cut bool, failures int32) *linkTest {
	l := &linkTest{t: t, cut: cut}
	l.fail.Store(failures)
	home := t.TempDir()
	loaded := load(t, home, listening(t, proving(t, load(t, home, "127.0.0.1:1"), "", l)))
	link, err := NewLink(Options{Name: "botwired mcp", Loaded: loaded, Waiting: func(string) {}})
	no(t, err)
	t.Cleanup(func() { link.Close(context.Background()) })
	l.client = &http.Client{Transport: link}
	return l
}

func (l *linkTest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/_botwired/status":
		if l.cuts.Add(-1) >= 0 {
			l.hangUp(w)
			return
		}
		stops := l.stops.Add(-1) >= 0
		fmt.Fprintf(w, `{"version":"1","ready":%t,"stopping":%t,"journal":{"refuses_writes":%t},"pending":0,"upstream":{"url":"x","state":"up"}}`,
			!stops && !l.full.Load(), stops, l.full.Load())
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != "the body" && r.Method != http.MethodGet {
		l.t.Errorf("the body is %q, %v", body, err)
	}
	if l.asked.Add(1) == 1 && l.first != nil {
		l.first()
	}
	switch {
	case l.fail.Add(-1) < 0:
	case l.cut:
		l.hangUp(w)
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"detail":"`+api.NotReady+`botwired is opening its journal"}`)
	}
}

func (l *linkTest) hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		l.t.Error(err)
	}
}

func (l *linkTest) ask(method string) (int, error) { return l.askNamed(method, "") }

func (l *linkTest) askNamed(method, name string) (int, error) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, "http://daemon/x", strings.NewReader("the body"))
	no(l.t, err)
	if name != "" {
		req.Header.Set(wire.OwnIdempotencyKey, name)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// If a connection is cut after a write, its outcome is unknown: the link retries it only if it has a name, by which the
// daemon knows it again. It retries a read.
func TestLinkWritesOnce(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		l := newLinkTest(t, true, 1)
		if _, err := l.ask(method); err == nil || l.asked.Load() != 1 {
			t.Errorf("%s: asked %d times, %v", method, l.asked.Load(), err)
		}
		l = newLinkTest(t, true, 2)
		if status, err := l.askNamed(method, "a name"); status != http.StatusOK || l.asked.Load() != 3 {
			t.Errorf("%s with a name: status %d, asked %d times, %v", method, status, l.asked.Load(), err)
		}
	}
	l := newLinkTest(t, true, 2)
	if status, err := l.ask(http.MethodGet); status != http.StatusOK || l.asked.Load() != 3 {
		t.Errorf("a read: status %d, asked %d times, %v", status, l.asked.Load(), err)
	}
}

// A daemon that dies while the link asks whether it is ready may be back soon: the link asks again. A
// program that hangs up each time is no daemon.
func TestLinkOutlivesADaemonThatDies(t *testing.T) {
	l := newLinkTest(t, false, 0)
	l.cuts.Store(2)
	if status, err := l.ask(http.MethodPut); status != http.StatusOK || l.asked.Load() != 1 {
		t.Errorf("status %d, asked %d times, %v", status, l.asked.Load(), err)
	}
	l = newLinkTest(t, false, 0)
	l.cuts.Store(1 << 30)
	if _, err := l.ask(http.MethodPut); err == nil || l.asked.Load() != 0 || !strings.Contains(err.Error(), "or another program than botwired listens there") {
		t.Errorf("asked %d times, %v", l.asked.Load(), err)
	}
}

// A daemon that is opening its journal has accepted nothing: the link retries everything.
func TestLinkWaitsForTheJournal(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		l := newLinkTest(t, false, 2)
		if status, err := l.ask(method); status != http.StatusOK || l.asked.Load() != 3 {
			t.Errorf("%s: status %d, asked %d times, %v", method, status, l.asked.Load(), err)
		}
	}
}

// The link uses a daemon whose journal is full, because reads go on. It waits while a daemon is stopping, full or not.
func TestLinkReadsWhileTheJournalIsFull(t *testing.T) {
	l := newLinkTest(t, false, 0)
	l.full.Store(true)
	if status, err := l.ask(http.MethodGet); status != http.StatusOK || l.asked.Load() != 1 {
		t.Errorf("status %d, asked %d times, %v", status, l.asked.Load(), err)
	}
	for _, full := range []bool{false, true} {
		l = newLinkTest(t, false, 0)
		l.full.Store(full)
		l.stops.Store(3)
		if status, err := l.ask(http.MethodGet); status != http.StatusOK || l.stops.Load() >= 0 {
			t.Errorf("full %t: status %d, while it stops: %d, %v", full, status, l.stops.Load(), err)
		}
	}
}

// A request whose caller gives up ends, and says why.
func TestLinkEndsWithItsRequest(t *testing.T) {
	l := newLinkTest(t, false, 1<<30)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon/x", http.NoBody)
	no(t, err)
	l.first = cancel
	if _, err := l.client.Do(req); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Error(err)
	}
}

func no(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
