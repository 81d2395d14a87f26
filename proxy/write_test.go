package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

func TestAWriteIsAcknowledgedAsBotWireWouldAndNumbered(t *testing.T) {
	s := newSidecar(t)
	s.upstream.setDown(true)
	w := s.put(id("n", "k"), "née")
	if got, want := w.Body.String(), `{"namespace":"n","key":"k","stored":true,"bytes":3}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	wantHeader(t, w, "Botwired-Write", "pending; seq=1")
	wantHeader(t, w, "Preference-Applied", "")
	w = s.do(http.MethodDelete, "/memory/n/k", "")
	if got, want := w.Body.String(), `{"deleted":true,"namespace":"n","key":"k"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	wantHeader(t, w, "Botwired-Write", "pending; seq=2")
	wantAsked(t, s)
}

func TestTheOrderOfAPutsChecks(t *testing.T) {
	s := newSidecar(t)
	tooLong := putBody(strings.Repeat("x", 100_001))
	for _, c := range []struct {
		target, body string
		status       int
		part         string
	}{
		{"/memory/bad%20name/k", "{", http.StatusUnprocessableEntity, "json_invalid"},
		{"/memory/bad%20name/bad%20key", tooLong, http.StatusBadRequest, "Invalid namespace"},
		{"/memory/n/bad%20key", tooLong, http.StatusBadRequest, "Invalid key"},
		{"/memory/n/k", tooLong, http.StatusBadRequest, "Value too large"},
		{"/memory/n/k", `{"value":1}`, http.StatusUnprocessableEntity, "string_type"},
	} {
		w := s.do(http.MethodPut, c.target, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.part) {
			t.Errorf("%s: %d %s, want %d and %q", c.target, w.Code, w.Body, c.status, c.part)
		}
	}
	if n := s.journal.Stats().Pending; n != 0 {
		t.Errorf("%d refused writes are pending", n)
	}
}

// endless is a body that must not be read to the end: it counts the bytes that are read.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func TestABodyThatIsTooLargeIsNotReadOn(t *testing.T) {
	s := newSidecar(t)
	for name, length := range map[string]int64{"said": wire.MaxBodyBytes + 1, "chunked": -1} {
		body := &endless{}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/memory/bad%20name/k", body)
		r.ContentLength = length
		w := httptest.NewRecorder()
		s.serve(s.server, w, r)
		wantDetail(t, w, http.StatusRequestEntityTooLarge, "too large", "5242880")
		if got, most := body.read.Load(), max(0, min(-length, 1)*(wire.MaxBodyBytes+1<<20)); got > most {
			t.Errorf("%s: %d bytes were read", name, got)
		}
	}
}

func TestABodyThatEndsEarlyIsNotStored(t *testing.T) {
	s := newSidecar(t)
	body := io.MultiReader(strings.NewReader(putBody("v")), failingReader{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/memory/n/k", body)
	w := httptest.NewRecorder()
	s.serve(s.server, w, r)
	wantDetail(t, w, http.StatusBadRequest, "error parsing the body")
	if n := s.journal.Stats().Pending; n != 0 {
		t.Errorf("%d writes are pending", n)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// Contract 3.
func TestAFullJournalRefusesAndRecovers(t *testing.T) {
	s := newSidecar(t, func(stored *journal.Options, _ *proxy.Options) { stored.MaxBytes = 10_000 })
	s.put(id("n", "k"), strings.Repeat("x", 9_000))
	w := s.do(http.MethodPut, "/memory/n/other", putBody("v"))
	wantDetail(t, w, http.StatusInsufficientStorage, "not taken, and nothing of it is kept", "takes writes again", "of the 10000 bytes that journal.max_bytes allows")
	wantStatus(t, s.get("/memory/n/other"), http.StatusNotFound)
	wantDetail(t, s.get("/_botwired/readyz"), http.StatusServiceUnavailable, "not ready", "takes writes again", "Reads and flushing go on")
	var status api.Status
	if decode(t, s.get("/_botwired/status"), &status); status.Ready || !status.Journal.RefusesWrites || status.Journal.Since == nil ||
		!strings.Contains(status.Journal.Reason, "of the 10000 bytes that journal.max_bytes allows") {
		t.Errorf("the status of a full journal: %+v", status)
	}
	s.settle(id("n", "k"))
	s.put(id("n", "other"), "v")
	wantStatus(t, s.get("/_botwired/readyz"), http.StatusOK)
	if decode(t, s.get("/_botwired/status"), &status); !status.Ready {
		t.Errorf("the status when there is room: %+v", status)
	}
}

// Contract 11.
func TestDelete(t *testing.T) {
	s := newSidecar(t)
	remove := func(key string, status int) {
		t.Helper()
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/"+key, ""), status)
	}
	s.put(id("n", "pending"), "v")
	remove("pending", http.StatusOK)
	remove("pending", http.StatusNotFound)
	s.learn(id("n", "settled"), "v")
	s.upstream.take()
	remove("settled", http.StatusOK)
	remove("settled", http.StatusNotFound)
	wantAsked(t, s)

	remove("absent", http.StatusNotFound)
	s.upstream.set(id("n", "unknown"), "v")
	remove("unknown", http.StatusOK)
	wantAsked(t, s, question{ID: id("n", "absent")}, question{ID: id("n", "unknown")})

	s.upstream.setDown(true)
	remove("perhaps", http.StatusOK)
	remove("perhaps", http.StatusNotFound) // there is a tombstone now
	remove("bad%20key", http.StatusBadRequest)
	wantKinds := map[string]journal.Kind{"pending": journal.Gone, "settled": journal.Gone, "absent": journal.Unknown, "perhaps": journal.Gone}
	for key, kind := range wantKinds {
		state, err := s.journal.Lookup(id("n", key))
		if err != nil || state.Kind != kind {
			t.Errorf("%s: kind %d, %v; want %d", key, state.Kind, err, kind)
		}
	}
}

// While upstream cannot be asked, a DELETE goes by the namespace's listing as long as a LIST would, and says
// if nothing is known.
func TestADeleteInAnOutageGoesByTheListing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.most = 3
		for _, key := range []string{"a", "b", "c"} {
			s.upstream.set(id("long", key), "v") // and there may be more
		}
		s.upstream.set(id("short", "theirs"), "v")
		s.upstream.set(id("short", "theirs2"), "v")
		wantKeys(t, s.get("/memory/short"), "theirs2", "theirs")
		wantStatus(t, s.get("/memory/long"), http.StatusOK)
		s.upstream.setDown(true)
		time.Sleep(time.Hour)
		remove := func(target, write string) {
			t.Helper()
			w := s.do(http.MethodDelete, target, "")
			if write == "" {
				wantStatus(t, w, http.StatusNotFound)
			} else {
				wantStatus(t, w, http.StatusOK)
			}
			wantHeader(t, w, "Botwired-Write", write)
		}
		remove("/memory/short/never", "")
		remove("/memory/short/theirs", "pending; seq=1")
		remove("/memory/short/theirs", "") // there is a tombstone now
		s.put(id("short", "mine"), "v")
		remove("/memory/short/mine", "pending; seq=3")
		remove("/memory/long/never", "pending; assumed; seq=4")
		remove("/memory/long/a", "pending; seq=5")
		remove("/memory/unlisted/never", "pending; assumed; seq=6")
		s.policy.StaleIfError = time.Minute
		remove("/memory/short/never2", "pending; assumed; seq=7")
		remove("/memory/short/theirs2", "pending; assumed; seq=8")
	})
}

func TestAKnownAbsenceIsNotAskedForAgainByDelete(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
		synctest.Wait()
		s.upstream.setDown(true)
		s.upstream.take()
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusNotFound)
		wantAsked(t, s)
		time.Sleep(2 * time.Second)
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusNotFound)
		wantAsked(t, s, question{ID: id("n", "k")})
		s.policy.StaleIfError = 0
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
	})
}

// A write that comes while a DELETE asks upstream decides its outcome.
func TestAWriteDuringADeletesQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		held := s.upstream.hold()
		deleted := s.begin(http.MethodDelete, "/memory/n/k", "")
		q := <-held
		s.put(id("n", "k"), "v")
		close(q.answer) // upstream: absent
		wantStatus(t, <-deleted, http.StatusOK)
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
	})
}

func TestOfConcurrentDeletesExactlyOneSucceeds(t *testing.T) {
	s := newSidecar(t)
	for round, prepare := range []func(journal.ID){
		func(id journal.ID) { s.put(id, "v") },
		func(id journal.ID) { s.learn(id, "v") },
		func(id journal.ID) { s.upstream.set(id, "v") },
	} {
		for i := range 20 {
			entry := id("n", fmt.Sprint("k", round, "-", i))
			prepare(entry)
			var succeeded atomic.Int32
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if s.do(http.MethodDelete, "/memory/"+entry.String(), "").Code == http.StatusOK {
						succeeded.Add(1)
					}
				})
			}
			wg.Wait()
			if n := succeeded.Load(); n != 1 {
				t.Errorf("round %d: %d deletes of 8 succeeded", round, n)
			}
		}
	}
}

// All of them have seen the same entry when they decide.
func TestOfDeletesThatAskedTogetherExactlyOneSucceeds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "k"), "v")
		codes := make(map[int]int)
		for _, w := range s.together(8, http.MethodDelete, "/memory/n/k") {
			codes[w.Code]++
		}
		if diff := cmp.Diff(map[int]int{http.StatusOK: 1, http.StatusNotFound: 7}, codes); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

func TestAWriteMayWaitForUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.flusher.await = func(ctx context.Context, id journal.ID, seq uint64) bool {
			w, _, _ := s.journal.Newest(id)
			if w.Seq != seq {
				t.Errorf("waiting for write %d, want %d", seq, w.Seq)
			}
			if id.Key == "slow" {
				<-ctx.Done()
				return false
			}
			time.Sleep(3 * time.Second)
			return s.flusher.settle(id)
		}
		for i, c := range []struct {
			key, prefer    string
			write, applied string
			took           time.Duration
		}{
			{"k", "wait=10", "settled", "wait=10", 3 * time.Second},
			{"k", `respond-async, Wait = "10"; x=y`, "settled", "wait=10", 3 * time.Second},
			{"slow", "wait=5", "pending", "wait=5", 5 * time.Second},
			{"slow", "wait=5, wait=9", "pending", "wait=5", 5 * time.Second},
			{"slow", "wait=99999999999999999999", "pending", "wait=60", time.Minute},
			{"slow", "wait=0", "pending", "wait=0", 0},
			{"slow", "wait=-1", "pending", "", 0},
			{"slow", "wait", "pending", "", 0},
			{"slow", "handling=lenient", "pending", "", 0},
		} {
			began := time.Now()
			w := s.put(id("n", c.key), fmt.Sprint(i), "Prefer", c.prefer)
			got := []string{w.Header().Get("Botwired-Write"), w.Header().Get("Preference-Applied"), time.Since(began).String()}
			want := []string{fmt.Sprintf("%s; seq=%d", c.write, i+1), c.applied, c.took.String()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Prefer: %s (-want +got):\n%s", c.prefer, diff)
			}
		}
		w := s.do(http.MethodDelete, "/memory/n/k", "", "Prefer", "wait=10")
		wantStatus(t, w, http.StatusOK)
		wantHeader(t, w, "Botwired-Write", "settled; seq=10")
	})
}

// A waiting caller learns that upstream has refused its write for good, or that another host's later write
// has beaten it.
func TestPreferWaitSaysDead(t *testing.T) {
	for want, end := range map[string]func(*sidecar, journal.Write) error{
		"dead": func(s *sidecar, w journal.Write) error {
			return s.journal.DeadLetter(w, journal.Failure{Status: 400, Reason: "bad"})
		},
		"superseded": func(s *sidecar, w journal.Write) error {
			return s.journal.Fence.Lose(w, journal.Observation{Value: "theirs", UpdatedAt: 1e10}, "later")
		},
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *sidecar) {
				s.flusher.await = func(_ context.Context, id journal.ID, _ uint64) bool {
					w, _, err := s.journal.Newest(id)
					if err == nil {
						err = end(s, w)
					}
					if err != nil {
						t.Error(err)
					}
					return false
				}
				w := s.put(id("n", "k"), "v", "Prefer", "wait=10")
				wantStatus(t, w, http.StatusOK)
				wantHeader(t, w, "Botwired-Write", want+"; seq=1")
			})
		})
	}
}

// The write stays although its caller left during the wait.
func TestACallerWhoWaitsMayGo(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.flusher.await = func(ctx context.Context, _ journal.ID, _ uint64) bool { <-ctx.Done(); return false }
		ctx, hangUp := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPut, "/memory/n/k", strings.NewReader(putBody("v")))
		r.Header.Set("Prefer", "wait=60")
		done := make(chan struct{})
		go func() {
			s.serve(s.server, httptest.NewRecorder(), r)
			close(done)
		}()
		synctest.Wait()
		hangUp()
		<-done
		wantValue(t, s.get("/memory/n/k"), "v")
	})
}

// On a nearly full disk upstream's answer cannot be kept. It still counts as a change: it must not be asked
// for again and again.
func TestADeleteOnAFullDiskIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(o *journal.Options, _ *proxy.Options) { o.FS, o.DiskReserve = fullDisk{o.FS}, 1<<20 })
		s.upstream.set(id("n", "k"), "theirs")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodDelete, "/memory/n/k", nil)
		held := s.upstream.hold()
		go func() {
			defer cancel() // after ten questions the DELETE would ask for ever
			for range 10 {
				select {
				case q := <-held:
					close(q.answer)
				case <-t.Context().Done():
					return
				}
			}
		}()
		w := httptest.NewRecorder()
		s.serve(s.server, w, r)
		wantStatus(t, w, http.StatusInsufficientStorage)
	})
}
