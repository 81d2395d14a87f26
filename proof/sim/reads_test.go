package sim

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	urlpath "path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// inWorld runs a test on a daemon in front of an upstream that is well, in virtual time.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(quota.Limit{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			w.up.become(condition{fault: healthy}, "")
			if err := w.close(); err != nil {
				t.Error(err)
			}
		}()
		test(t, w)
	})
}

// wantWithin makes a request that has to get a status within a time.
func (w *world) wantWithin(t *testing.T, longest time.Duration, status int, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	began := time.Now()
	r := w.node.do(method, path, "", header...)
	if took := time.Since(began); took > longest || r.Code != status {
		t.Errorf("%s %s: %d after %s, want %d within %s: %s", method, path, r.Code, took, status, longest, r.Body)
	}
	return r
}

// soon is some round trips: a reader that cannot expect an answer waits no longer.
const soon = 250 * time.Millisecond

// Contract 9: a hanging upstream keeps nobody waiting for longer than
// the reader's patience, and hardly anybody once the last reads have hung.
func TestReadsOfAHangingUpstreamAreAnswered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.up.become(condition{fault: hanging}, "")
		w.wantWithin(t, usual.patience, http.StatusServiceUnavailable, http.MethodGet, "/memory/n/polled")
		for range 200 {
			w.wantWithin(t, soon, http.StatusServiceUnavailable, http.MethodGet, "/memory/n/polled")
			time.Sleep(300 * time.Millisecond)
		}
		w.wantWithin(t, usual.patience, http.StatusServiceUnavailable, http.MethodGet, "/memory/n/another")
		time.Sleep(time.Millisecond) // the daemon knows now that this one hangs too
		for i := range 20 {
			w.wantWithin(t, soon, http.StatusServiceUnavailable, http.MethodGet, fmt.Sprint("/memory/n/other", i))
			w.wantWithin(t, soon, http.StatusServiceUnavailable, http.MethodGet, fmt.Sprint("/memory/namespace", i))
			w.wantWithin(t, soon, http.StatusOK, http.MethodDelete, fmt.Sprint("/memory/n/other", i))
		}
		w.up.become(condition{fault: healthy}, "")
		time.Sleep(backoffMax + requestTimeout)
		w.wantWithin(t, usual.patience, http.StatusNotFound, http.MethodGet, "/memory/n/polled")
		w.wantWithin(t, soon, http.StatusNotFound, http.MethodGet, "/memory/n/unknown")
	})
}

// A DELETE of something unknown waits no longer than a read.
func TestADeleteInFrontOfAHangingUpstreamIsAnswered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.up.become(condition{fault: hanging}, "")
		w.wantWithin(t, usual.patience, http.StatusOK, http.MethodDelete, "/memory/n/unknown")
	})
}

// An answer that comes after its reader has gone is there for the next one.
func TestALateAnswerIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.up.entries[journal.ID{Namespace: "n", Key: "k"}] = stored{value: "v", created: 1, updated: 1}
		w.up.latency = 7 * time.Second
		w.wantWithin(t, usual.patience, http.StatusServiceUnavailable, http.MethodGet, "/memory/n/k")
		time.Sleep(3 * time.Second)
		w.wantWithin(t, 0, http.StatusOK, http.MethodGet, "/memory/n/k", "Cache-Control", "only-if-cached")
	})
}

// prepared gives upstream entries that the daemon then reads.
func (w *world) prepared(t *testing.T, count int) (paths []string) {
	t.Helper()
	for i := range count {
		id := journal.ID{Namespace: "n", Key: fmt.Sprint("k", i)}
		w.up.entries[id] = stored{value: "v", created: 1, updated: 1}
		w.wantWithin(t, soon, http.StatusOK, http.MethodGet, path(id))
		paths = append(paths, path(id))
	}
	return paths
}

func (w *world) readAtOnce(paths []string) {
	var readers sync.WaitGroup
	for _, p := range paths {
		readers.Go(func() { w.node.do(http.MethodGet, p, "") })
	}
	readers.Wait()
}

// asked counts the requests upstream that begin with some text, since a line of the log.
func (w *world) asked(from int, text string) (count int) {
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	for _, line := range w.up.log[from:] {
		if strings.Contains(line, text) && !strings.HasSuffix(line, ": done") {
			count++
		}
	}
	return count
}

// takePeak is how many requests upstream had at once at most since the last time.
func (w *world) takePeak() int {
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	peak := w.up.peak
	w.up.peak = 0
	return peak
}

func (w *world) logged() int {
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	return len(w.up.log)
}

// upstream.concurrency bounds reads and writes together, and neither keeps the other
// from going.
func TestReadsAndWritesShareTheConcurrency(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		paths := w.prepared(t, 600)
		for name, age := range map[string]time.Duration{"stale": 30 * time.Second, "expired": 10 * time.Minute} {
			time.Sleep(age)
			w.takePeak()
			go w.readAtOnce(paths)
			synctest.Wait()
			for i := range 40 {
				w.node.do(http.MethodPut, fmt.Sprint("/memory/", name, i, "/k"), `{"value":"v"}`)
			}
			w.wantWithin(t, time.Second, http.StatusNotFound, http.MethodGet, "/memory/other/unknown"+name)
			time.Sleep(linger + time.Second) // each of them is compared with upstream first
			if p := w.node.journal.Stats().Pending; p != 0 {
				t.Errorf("%s: %d writes wait behind the reads", name, p)
			}
			time.Sleep(10 * time.Second)
			if peak := w.takePeak(); peak > concurrency {
				t.Errorf("%s: %d requests at once, want %d at most", name, peak, concurrency)
			}
		}
	})
}

// The status and the metrics show that fewer requests are made after many have timed out, and
// soon as many as before once upstream is well.
func TestTheConcurrencyIsShown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		now := func() int {
			var doc struct {
				Upstream struct{ Concurrency api.Concurrency }
			}
			w.surface("status", &doc)
			c := doc.Upstream.Concurrency
			metrics := w.node.do(http.MethodGet, "/_botwired/metrics", "").Body.String()
			if line := fmt.Sprintf("\nbotwired_upstream_concurrency %d\n", c.Now); !strings.Contains(metrics, line) {
				t.Errorf("the metrics have no line %q", line)
			}
			if c.Limit != concurrency || (c.Reason == "") != (c.Now == concurrency) {
				t.Errorf("concurrency: %+v", c)
			}
			return c.Now
		}
		if n := now(); n != concurrency {
			t.Errorf("%d at first", n)
		}
		w.up.become(condition{fault: hanging}, "")
		var paths []string
		for i := range 2 * concurrency {
			paths = append(paths, fmt.Sprintf("/memory/n%d/k", i))
		}
		w.readAtOnce(paths)
		time.Sleep(2 * requestTimeout)
		if n := now(); n > concurrency/2 {
			t.Errorf("%d after the time-outs", n)
		}
		w.up.become(condition{fault: healthy}, "")
		for i := range 20 {
			w.node.do(http.MethodPut, fmt.Sprintf("/memory/n/%d", i), `{"value":"v"}`)
			time.Sleep(2 * time.Second)
		}
		if n := now(); n != concurrency {
			t.Errorf("%d in the end", n)
		}
	})
}

// Contract 15: a namespace whose reads are throttled is not asked before the time that
// upstream named, whether or not a copy answers.
func TestThrottledReadsWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		paths := w.prepared(t, 50)
		time.Sleep(30 * time.Second)
		w.up.become(condition{fault: limiting}, "") // Retry-After: 2
		from := w.logged()
		for range 3 {
			w.readAtOnce(paths)
			synctest.Wait() // for what goes on in the background
		}
		for i := range 50 {
			r := w.wantWithin(t, soon, http.StatusTooManyRequests, http.MethodGet, fmt.Sprint("/memory/n/unknown", i))
			if after := r.Header().Get("Retry-After"); after != "2" {
				t.Fatalf("Retry-After: %q", after)
			}
		}
		w.wantWithin(t, soon, http.StatusTooManyRequests, http.MethodGet, "/memory/elsewhere/k")
		if n := w.asked(from, "GET n/"); n > concurrency {
			t.Errorf("%d requests for a namespace that is to wait, want those that were under way", n)
		}
		time.Sleep(2 * time.Second)
		from = w.logged()
		w.readAtOnce(paths)
		synctest.Wait()
		if n := w.asked(from, "GET n/"); n != 1 {
			t.Errorf("%d requests find out whether the namespace may be read again, want one", n)
		}
		w.up.become(condition{fault: healthy}, "")
		time.Sleep(3 * time.Second)
		w.wantWithin(t, soon, http.StatusNotFound, http.MethodGet, "/memory/n/unknown")
	})
}

// Contract 16: a namespace whose reads hang holds up no other's.
func TestReadsThatHangHoldUpNoOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.up.answering = func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/memory/hangs/") {
				<-r.Context().Done()
				return
			}
			w.up.sleep(w.up.latency)
			wire.NotFound("n", urlpath.Base(r.URL.Path)).Write(rw)
		}
		for round := range 5 {
			var unknown []string
			for i := range 40 {
				unknown = append(unknown, fmt.Sprintf("/memory/hangs/%d-%d", round, i))
			}
			go w.readAtOnce(unknown)
			synctest.Wait()
			for i := range 20 {
				w.wantWithin(t, soon, http.StatusNotFound, http.MethodGet, fmt.Sprintf("/memory/n/%d-%d", round, i))
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(time.Minute)
		}
	})
}
