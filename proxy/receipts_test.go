package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// wantReceipt checks a receipt, except for its times.
func wantReceipt(t *testing.T, w *httptest.ResponseRecorder, want api.Receipt) {
	t.Helper()
	wantStatus(t, w, http.StatusOK)
	wantHeader(t, w, "Cache-Control", "no-store")
	var got api.Receipt
	decode(t, w, &got)
	if got.WrittenAt == 0 || (got.SettledAt == nil) != (got.State == "pending") || got.SettledAt != nil && *got.SettledAt < got.WrittenAt {
		t.Errorf("the times are wrong: %s", w.Body)
	}
	got.WrittenAt, got.SettledAt = 0, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the receipt of write %d (-want +got):\n%s", want.Seq, diff)
	}
}

// Every acknowledged write has a receipt under the seq of its Botwired-Write header.
func TestReceiptsOfWrites(t *testing.T) {
	s := newSidecar(t)
	seq := func(n uint64) *uint64 { return &n }
	wantHeader(t, s.put(id("n", "a"), "1"), "Botwired-Write", "pending; seq=1")
	s.put(id("n", "a"), "2")
	s.settle(id("n", "a"))
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/a", ""), http.StatusOK)
	s.deadLetter(id("n", "b"), "secret-value")
	s.deadLetter(id("n", "c"), "secret-value")
	wantStatus(t, s.do(http.MethodPost, "/_botwired/dead-letters/5/retry", ""), http.StatusOK)
	wantStatus(t, s.do(http.MethodDelete, "/_botwired/dead-letters/4", ""), http.StatusOK)
	w := s.put(id("n", "d"), "1", "If-None-Match", "*", "Prefer", "wait=0")
	wantHeader(t, w, "Botwired-Write", "pending; seq=7")
	s.upstream.setDown(true)
	w = s.do(http.MethodDelete, "/memory/n/unknown", "")
	wantHeader(t, w, "Botwired-Write", "pending; assumed; seq=8")
	for _, want := range []api.Receipt{
		{Seq: 1, Namespace: "n", Key: "a", Op: "put", State: "superseded", By: seq(2)},
		{Seq: 2, Namespace: "n", Key: "a", Op: "put", State: "settled"},
		{Seq: 3, Namespace: "n", Key: "a", Op: "delete", State: "pending"},
		{Seq: 4, Namespace: "n", Key: "b", Op: "put", State: "dead", Reason: "HTTP 413: too large"},
		{Seq: 5, Namespace: "n", Key: "c", Op: "put", State: "superseded", By: seq(6)},
		{Seq: 6, Namespace: "n", Key: "c", Op: "put", State: "pending"},
		{Seq: 7, Namespace: "n", Key: "d", Op: "put", State: "pending"},
		{Seq: 8, Namespace: "n", Key: "unknown", Op: "delete", State: "pending"},
	} {
		wantReceipt(t, s.get(fmt.Sprint("/_botwired/receipts/", want.Seq)), want)
	}
	if body := s.get("/_botwired/receipts/3").Body.String(); !strings.Contains(body, `"settled_at":null,"by":null,"reason":""`) {
		t.Errorf("a pending write: %s", body)
	}
	var newest api.Receipts
	decode(t, s.get("/_botwired/receipts?limit=3"), &newest)
	var ended []uint64
	for _, r := range newest.Receipts {
		ended = append(ended, r.Seq)
	}
	if !slices.Equal(ended, []uint64{5, 4, 2}) {
		t.Errorf("the newest writes that are no longer pending: %d", ended)
	}
	wantDetail(t, s.get("/_botwired/receipts/9"), http.StatusNotFound, "no such write yet: 9")
	wantDetail(t, s.get("/_botwired/receipts/0"), http.StatusNotFound, "no such write yet: 0")
	wantDetail(t, s.get("/_botwired/receipts/18446744073709551616"), http.StatusNotFound, "expected the seq of a Botwired-Write header")
	if metrics := s.get("/_botwired/metrics").Body.String(); !strings.Contains(metrics, "\nbotwired_receipts ") {
		t.Error("no metric says how many receipts are kept")
	}
}

// A waiting request is answered when the write has ended, or with the pending receipt when its time is up or
// the daemon stops. It sends nothing upstream.
func TestReceiptWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := api.Receipt{Seq: 1, Namespace: "n", Key: "a", Op: "put", State: "pending"}
		s.put(id("n", "a"), "1")
		began := time.Now()
		wantReceipt(t, s.get("/_botwired/receipts/1?wait=5s"), a)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
		waiting := []<-chan *httptest.ResponseRecorder{
			s.begin(http.MethodGet, "/_botwired/receipts/1?wait=1m", ""), s.begin(http.MethodGet, "/_botwired/receipts/1?wait=60", ""),
		}
		synctest.Wait()
		s.put(id("n", "other"), "1")
		time.Sleep(30 * time.Second)
		began = time.Now()
		s.settle(id("n", "a"))
		for _, w := range waiting {
			a.State = "settled"
			wantReceipt(t, <-w, a)
		}
		wantReceipt(t, s.get("/_botwired/receipts/1?wait=60s"), a)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %s", took)
		}

		s.put(id("n", "b"), "1")
		superseded := s.begin(http.MethodGet, "/_botwired/receipts/3?wait=1m", "")
		synctest.Wait()
		s.put(id("n", "b"), "2")
		by := uint64(4)
		wantReceipt(t, <-superseded, api.Receipt{Seq: 3, Namespace: "n", Key: "b", Op: "put", State: "superseded", By: &by})
		stopped := s.begin(http.MethodGet, "/_botwired/receipts/4?wait=1m", "")
		synctest.Wait()
		s.server.EndWaits()
		wantReceipt(t, <-stopped, api.Receipt{Seq: 4, Namespace: "n", Key: "b", Op: "put", State: "pending"})
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %s", took)
		}
		for _, text := range []string{"x", "-1s", "61s", "61", "2m", "NaN", "5s&wait=5s", "5s&seq=1"} {
			wantDetail(t, s.get("/_botwired/receipts/4?wait="+text), http.StatusBadRequest)
		}
		wantDetail(t, s.get("/_botwired/receipts/4?wait=2m"), http.StatusBadRequest, "30s, from 0 to 1m")
	})
}

// restarted writes n/a, and starts the daemon again. It calls unread before that has read its journal, and read after each
// start has.
func restarted(t *testing.T, unread func(s *sidecar), read func(s *sidecar, again bool)) {
	t.Helper()
	inBubble(t, func(t *testing.T, s *sidecar) {
		fs := vfs.NewCrashableMem()
		for _, again := range []bool{false, true} {
			j, err := journal.Open(journal.Options{Dir: "journal", FS: fs})
			if err != nil {
				t.Fatal(err)
			}
			opts := s.opts
			opts.Journal = j
			if s.server, err = proxy.New(opts); err != nil {
				t.Fatal(err)
			}
			if again {
				unread(s)
			}
			if err := j.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !again {
				s.put(id("n", "a"), "1")
			}
			read(s, again)
			s.server.Close()
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A daemon that is still reading its journal denies no write.
func TestReceiptWhileTheJournalIsRead(t *testing.T) {
	restarted(t, func(s *sidecar) {
		w := s.get("/_botwired/receipts/1")
		wantDetail(t, w, http.StatusServiceUnavailable, "not known yet", "still being read")
		wantHeader(t, w, "Retry-After", "1")
	}, func(s *sidecar, _ bool) {
		wantReceipt(t, s.get("/_botwired/receipts/1"), api.Receipt{Seq: 1, Namespace: "n", Key: "a", Op: "put", State: "pending"})
	})
}
