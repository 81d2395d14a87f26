package proxy_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// forgetful is an engine that has noticed a loss.
type forgetful struct {
	why      string
	doubt    string // it is not known yet
	restores bool
	err      error
	accepted int
}

func (f *forgetful) State() api.WatchState {
	return api.WatchState{Lost: f.why, CaughtUp: f.why == "" && f.doubt == "", Reason: f.doubt}
}

func (f *forgetful) Accept(restores bool) error {
	if f.restores = restores; f.err == nil {
		f.why = ""
		f.accepted++
	}
	return f.err
}

func withLoss(f *forgetful) func(*journal.Options, *proxy.Options) {
	return func(stored *journal.Options, opts *proxy.Options) {
		careful(stored, opts)
		opts.Watch = f
	}
}

func (s *sidecar) wantAccepted(path string, want api.Accepted) {
	s.t.Helper()
	w := s.do(http.MethodPost, "/_botwired/"+path+"?namespace=*", "")
	wantStatus(s.t, w, http.StatusOK)
	var got api.Accepted
	decode(s.t, w, &got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// An upstream that has lost everything gets back every entry with a local copy, even in a namespace so small
// that its absence would be accepted. Newer values upstream stay.
func TestRestoreAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{why: "the bucket was made anew"}
		s := newSidecar(t, withLoss(f))
		s.learnMany("large", 120)
		s.learnMany("small", 1)
		s.upstream.wipe()
		f.err = errors.New("the disk is full")
		if w := s.do(http.MethodPost, "/_botwired/restore?namespace=*", ""); w.Code == http.StatusOK {
			t.Errorf("it went on without having said so: %s", w.Body)
		}
		f.err = nil
		s.wantAccepted("restore", api.Accepted{Lost: "the bucket was made anew", Namespaces: []string{"large", "small"}})
		s.wantAccepted("restore", api.Accepted{Namespaces: []string{}})
		for _, namespace := range []string{"large", "small"} {
			s.settleAll(namespace)
		}
		for namespace, n := range map[string]int{"large": 120, "small": 1} {
			for i := range n {
				if value, _ := s.upstream.holds(id(namespace, fmt.Sprint("key-", i))); value != fmt.Sprint("value ", i) {
					t.Errorf("upstream holds %q of %s/%d", value, namespace, i)
				}
			}
			if doc := s.dataLoss(namespace); doc != nil {
				t.Errorf("%s: %+v", namespace, doc)
			}
		}
		s.wantAccepted("restore", api.Accepted{Namespaces: []string{}})
		f.doubt = "it is looked at again"
		w := s.do(http.MethodPost, "/_botwired/restore?namespace=*", "")
		wantStatus(t, w, http.StatusServiceUnavailable)
		if !strings.Contains(w.Body.String(), f.doubt) || !f.restores {
			t.Errorf("in doubt: %s; deletes are given back: %v", w.Body, f.restores)
		}
		if f.accepted != 1 {
			t.Errorf("accepted %d times", f.accepted)
		}
	})
}

// An upstream with versions gets a copy back with its own time, so that another host's later write beats it.
// The copy replaces an older version that another host has brought back.
func TestWhatIsRestoredIsAsLateAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{why: "the bucket was made anew"}
		s := newSidecar(t, withLoss(f), func(_ *journal.Options, o *proxy.Options) { o.Exact = true })
		s.learnMany("ns", 12)
		older := s.upstream.entries[id("ns", "key-0")]
		s.upstream.set(id("ns", "key-0"), "later")
		wantValue(t, s.get("/memory/ns/key-0", "Cache-Control", "no-cache"), "later")
		lost := s.upstream.wipe()
		older.Value = "older"
		s.upstream.entries[id("ns", "key-0")] = older
		s.wantAccepted("restore", api.Accepted{Lost: "the bucket was made anew", Namespaces: []string{"ns"}})
		synctest.Wait()
		pending := s.journal.PendingList("ns", 100)
		if len(pending) != 12 {
			t.Errorf("%d of 12 entries are given back", len(pending))
		}
		for _, p := range pending {
			if want := lost[p.ID].UpdatedAt; p.UpdatedAt != want {
				t.Errorf("%s is given back with the time %v, and had %v", p.ID, p.UpdatedAt, want)
			}
			s.settle(p.ID)
		}
		synctest.Wait()
		if doc := s.dataLoss("ns"); doc != nil {
			t.Errorf("%+v", doc)
		}
	})
}

// An upstream that loses all once more, while it gets back what it had lost, gets back all of it again.
func TestRestoreOfWhatIsLostTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{why: "the bucket was made anew"}
		s := newSidecar(t, withLoss(f), func(_ *journal.Options, o *proxy.Options) { o.Exact = true })
		s.learnMany("ns", 120)
		s.upstream.wipe()
		s.wantAccepted("restore", api.Accepted{Lost: f.why, Namespaces: []string{"ns"}})
		for i := range 60 {
			s.settle(id("ns", fmt.Sprint("key-", i)))
		}
		s.upstream.wipe()
		f.why = "the bucket was made anew once more"
		s.wantAccepted("restore", api.Accepted{Lost: f.why, Namespaces: []string{"ns"}})
		s.settleAll("ns")
		for i := range 120 {
			if value, _ := s.upstream.holds(id("ns", fmt.Sprint("key-", i))); value != fmt.Sprint("value ", i) {
				t.Fatalf("upstream holds %q of %d", value, i)
			}
		}
		if doc := s.dataLoss("ns"); doc != nil {
			t.Errorf("%+v", doc)
		}
	})
}

// A bucket that cannot be asked yet gets everything back once it can: until then, that is pending.
func TestRestoreAllWhileUpstreamIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{why: "the bucket is gone"}
		s := newSidecar(t, withLoss(f), func(_ *journal.Options, o *proxy.Options) { o.Exact = true })
		s.learnMany("ns", 3)
		s.run()
		s.upstream.wipe()
		s.upstream.setDown(true)
		s.wantAccepted("restore", api.Accepted{Lost: f.why, Namespaces: []string{"ns"}})
		if doc := s.dataLoss("ns"); doc != nil || len(s.journal.PendingList("ns", 10)) != 3 {
			t.Fatalf("%+v", doc)
		}
		s.upstream.setDown(false)
		time.Sleep(time.Minute) // it is listed, and lacks what is pending
		synctest.Wait()
		if got := s.journal.PendingList("ns", 10); len(got) != 3 {
			t.Errorf("%+v", got)
		}
		s.settleAll("ns")
		for i := range 3 {
			wantValue(t, s.get(fmt.Sprint("/memory/ns/key-", i)), fmt.Sprint("value ", i))
		}
		if doc := s.dataLoss("ns"); doc != nil {
			t.Errorf("%+v", doc)
		}
	})
}

// A person may accept upstream's state.
func TestAcceptUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{why: "the bucket was made anew"}
		s := newSidecar(t, withLoss(f))
		s.learnMany("ns", 20)
		s.upstream.wipe()
		s.wantAccepted("forget", api.Accepted{Lost: "the bucket was made anew", Namespaces: []string{}})
		s.wantAccepted("forget", api.Accepted{Namespaces: []string{}})
		if doc := s.dataLoss("ns"); doc != nil || f.accepted != 1 {
			t.Errorf("accepted %d times, %+v", f.accepted, doc)
		}
	})
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.wantAccepted("forget", api.Accepted{Namespaces: []string{}})
		s.wantAccepted("restore", api.Accepted{Namespaces: []string{}})
	})
}

// noBucket is an engine that can use no bucket.
type noBucket struct{ forgetful }

func (noBucket) State() api.WatchState { return api.WatchState{Refused: "it cannot be made"} }

func (s *sidecar) wantMetrics(lines ...string) {
	s.t.Helper()
	text := s.get("/_botwired/metrics").Body.String()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			s.t.Errorf("the metrics lack %s", line)
		}
	}
}

// The metrics know of a bucket that is lost or cannot be used what the status knows, although the servers
// answer.
func TestMetricsOfABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, withLoss(&forgetful{why: "the bucket was made anew"}))
		s.learnMany("large", 3)
		s.learnMany("small", 1)
		s.wantMetrics("botwired_data_loss_namespaces 2", "botwired_upstream_up 1", `botwired_finding{finding="upstream_lost",level="critical"} 1`)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(_ *journal.Options, opts *proxy.Options) { opts.Watch = &noBucket{} })
		s.wantMetrics("botwired_upstream_up 0", `botwired_finding{finding="no_bucket",level="critical"} 1`)
	})
}
