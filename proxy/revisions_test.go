package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/proxy/memory"
)

// keptState is a state that upstream keeps.
type keptState struct {
	Number               uint64
	Deleted              bool
	Value                string
	CreatedAt, WrittenAt float64
	Host                 string
	Seq                  uint64
	Author               string
}

// fakeRevisions keeps the states of entries, newest first.
type fakeRevisions struct {
	mu   sync.Mutex
	last uint64
	kept map[journal.ID][]keptState
	fail error
	// asked, if not nil, is called for each question before the answer is made.
	asked func()
}

func (f *fakeRevisions) Revisions(ctx context.Context, id journal.ID) ([]memory.Version, error) {
	f.mu.Lock()
	fail, asked := f.fail, f.asked
	f.mu.Unlock()
	if asked != nil {
		asked()
	}
	if errors.Is(fail, context.DeadlineExceeded) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var versions []memory.Version
	for _, r := range f.kept[id] {
		v := memory.Version{
			Past:     journal.Past{ID: id, Op: journal.Delete, State: journal.PastSettled, WrittenAt: r.WrittenAt, Host: r.Host, Author: r.Author},
			Revision: r.Number, Here: r.Host == "here",
		}
		if v.Here {
			v.Seq = r.Seq
		}
		if !r.Deleted {
			v.Op, v.CreatedAt, v.Value = journal.Put, r.CreatedAt, r.Value
		}
		versions = append(versions, v)
	}
	return versions, fail
}

// become makes all answers fail, or calls a function first.
func (f *fakeRevisions) become(fail error, asked func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.asked = fail, asked
}

// keep adds a state, and numbers it.
func (f *fakeRevisions) keep(id journal.ID, r keptState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	r.Number = f.last
	f.kept[id] = slices.Insert(f.kept[id], 0, r)
}

// newPast returns a sidecar whose upstream keeps the states of entries. A settled write becomes one.
func newPast(t *testing.T, adjust ...func(*journal.Options, *proxy.Options)) (*sidecar, *fakeRevisions) {
	kept := &fakeRevisions{kept: make(map[journal.ID][]keptState)}
	s := newSidecar(t, append(adjust, func(_ *journal.Options, o *proxy.Options) { o.Revisions, o.Host = kept.Revisions, "here" })...)
	s.flusher.settled = func(w journal.Write) {
		kept.keep(w.ID, keptState{
			Deleted: w.Op == journal.Delete, Value: w.Value, CreatedAt: 1, WrittenAt: w.UpdatedAt + 1, Host: "here", Seq: w.Seq,
		})
	}
	return s, kept
}

// foreign writes an entry as another host.
func (s *sidecar) foreign(kept *fakeRevisions, id journal.ID, value string) {
	s.upstream.set(id, value)
	s.upstream.mu.Lock()
	defer s.upstream.mu.Unlock()
	o := s.upstream.entries[id]
	o.Host, o.Author = "there", "somebody"
	s.upstream.entries[id] = o
	kept.keep(id, keptState{Value: value, CreatedAt: 1, WrittenAt: o.UpdatedAt, Host: "there", Seq: 7, Author: o.Author})
}

// wantStates checks an entry's states: op, value, host and state of each.
func (s *sidecar) wantStates(id journal.ID, want ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	w := s.get("/_botwired/revisions?namespace=" + id.Namespace + "&key=" + id.Key)
	wantStatus(s.t, w, http.StatusOK)
	var doc api.Revisions
	decode(s.t, w, &doc)
	var got []string
	for _, d := range doc.Revisions {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", d.State, d.Host, d.Op, d.Text())))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("the states (-want +got):\n%s", diff)
	}
	return w
}

func (s *sidecar) undo(id journal.ID, more string, headers ...string) *httptest.ResponseRecorder {
	return s.do(http.MethodPost, "/_botwired/undo?namespace="+id.Namespace+"&key="+id.Key+more, "", headers...)
}

func TestTheStatesOfAnEntry(t *testing.T) {
	s, kept := newPast(t)
	k := id("n", "k")
	s.put(k, "one")
	first := s.wantStates(k, "pending here put one")
	s.settle(k)
	if again := s.wantStates(k, "settled here put one"); again.Header().Get("Etag") != first.Header().Get("Etag") {
		t.Error("a write has another tag once it has settled")
	}
	s.foreign(kept, k, "twö")
	theirs := s.wantStates(k, "settled there put twö", "settled here put one")
	wantHeader(t, theirs, "Etag", `"revision-2"`)
	if !strings.Contains(theirs.Body.String(), `{"namespace":"n","key":"k","revisions":[{"revision":2,"state":"settled","op":"put","value":"twö","bytes":3,`+
		`"created_at":1,"updated_at":1000002,"host":"there","here":false,"author":"somebody","seq":null},`) {
		t.Error(theirs.Body)
	}
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
	s.wantStates(k, "pending here delete", "settled there put twö", "settled here put one")
	s.settle(k)
	s.wantStates(k, "settled here delete", "settled there put twö", "settled here put one")

	wantDetail(t, s.get("/_botwired/revisions?namespace=n&key=none"), http.StatusNotFound, "no version of n/none is known: it was never written here, or was purged, and upstream has not shown it")
	wantStatus(t, s.get("/_botwired/revisions?namespace=n"), http.StatusBadRequest)
	wantStatus(t, s.undo(id("n", "none"), ""), http.StatusNotFound)
}

// A write that upstream has, but the journal does not know as settled, is one state, not two.
func TestAStateThatIsJustSettling(t *testing.T) {
	s, kept := newPast(t)
	k := id("n", "k")
	s.put(k, "one")
	kept.keep(k, keptState{Value: "one", CreatedAt: 1, WrittenAt: 2, Host: "here", Seq: 1})
	s.wantStates(k, "settled here put one")
	kept.keep(k, keptState{Value: "two", CreatedAt: 1, WrittenAt: 3, Host: "there", Seq: 1})
	s.wantStates(k, "settled there put two", "settled here put one")
}

func TestUndo(t *testing.T) {
	s, kept := newPast(t)
	k := id("n", "k")
	for _, value := range []string{"one", "two"} {
		s.put(k, value)
		s.settle(k)
	}
	w := s.undo(k, "")
	wantStatus(t, w, http.StatusOK)
	wantHeader(t, w, "Botwired-Write", "pending; seq=3")
	var doc api.Undone
	if decode(t, w, &doc); doc.Undone.Text() != "two" || doc.Now.Text() != "one" || *doc.Now.Revision != 1 {
		t.Errorf("%s", w.Body)
	}
	wantValue(t, s.get("/memory/n/k"), "one")
	s.wantStates(k, "pending here put one", "settled here put two", "settled here put one")
	wantStatus(t, s.undo(k, ""), http.StatusOK) // undoes the undo
	wantValue(t, s.get("/memory/n/k"), "two")
	s.settle(k)

	wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
	s.settle(k)
	wantStatus(t, s.undo(k, "", "Prefer", "wait=0"), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "two")
	s.settle(k)
	wantStatus(t, s.undo(k, "&to=4"), http.StatusOK) // undoes the delete
	wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
	wantDetail(t, s.undo(k, "&to=4"), http.StatusConflict, "nothing to undo: n/k is as that version has it")
	s.settle(k)
	wantStatus(t, s.undo(k, "&to=1"), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "one")

	s.foreign(kept, id("n", "theirs"), "before")
	s.foreign(kept, id("n", "theirs"), "after")
	wantStatus(t, s.undo(id("n", "theirs"), ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/theirs"), "before")
}

func TestUndoRefuses(t *testing.T) {
	s, _ := newPast(t)
	k := id("n", "k")
	s.put(k, "one")
	wantDetail(t, s.undo(k, ""), http.StatusConflict, "no version of n/k before this one is kept. If this one made the entry, delete it")
	s.settle(k)
	s.put(k, "two")
	wantDetail(t, s.undo(k, "&to=7"), http.StatusNotFound, "revision 7 of n/k is not kept")
	wantDetail(t, s.undo(k, "&to=0"), http.StatusBadRequest, "expected a revision, or w and the number of a write")
	wantDetail(t, s.undo(k, "&until=1"), http.StatusBadRequest, "unknown parameter")
	wantDetail(t, s.undo(k, "", "If-None-Match", "*"), http.StatusBadRequest, "If-Match")
	wantDetail(t, s.undo(k, "", "Idempotency-Key", "a"), http.StatusBadRequest, "If-Match")
	wantDetail(t, s.undo(k, "", "If-Match", "one"), http.StatusBadRequest, "quotation marks")
	seen := s.wantStates(k, "pending here put two", "settled here put one").Header().Get("Etag")
	s.put(k, "three")
	wantDetail(t, s.undo(k, "", "If-Match", seen), http.StatusPreconditionFailed, "written after you had looked")
	wantValue(t, s.get("/memory/n/k"), "three")
	seen = s.wantStates(k, "pending here put three", "superseded here put two", "settled here put one").Header().Get("Etag")
	s.settle(k)
	wantStatus(t, s.undo(k, "", "If-Match", seen), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "two")
	s.settle(k)
	wantStatus(t, s.undo(k, "&to=3", "If-Match", `"revision-9"`), http.StatusPreconditionFailed)
}

// In front of an upstream that keeps no states, those that the journal keeps are listed, and undone, also
// while upstream is away.
func TestTheVersionsHere(t *testing.T) {
	s := newSidecar(t)
	k := id("n", "k")
	wantStatus(t, s.get("/_botwired/revisions?namespace=n&key=none"), http.StatusNotFound)
	wantStatus(t, s.undo(id("n", "none"), ""), http.StatusNotFound)
	s.upstream.set(k, "theirs")
	wantValue(t, s.get("/memory/n/k"), "theirs")
	s.wantStates(k, "settled  put theirs")
	theirs := s.undo(k, "")
	wantDetail(t, theirs, http.StatusConflict, "no version of n/k before this one is kept")
	if strings.Contains(theirs.Body.String(), "delete") {
		t.Errorf("deleting what others have written is no undo: %s", theirs.Body)
	}

	s.upstream.setDown(true)
	s.put(k, "spoilt")
	s.wantStates(k, "pending  put spoilt", "settled  put theirs")
	wantStatus(t, s.undo(k, ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "theirs")
	s.wantStates(k, "pending  put theirs", "superseded  put spoilt", "settled  put theirs")
	wantStatus(t, s.undo(k, ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "spoilt")
	s.upstream.setDown(false)
	s.settle(k)

	s.deadLetter(k, "refused")
	s.wantStates(k, "settled  put spoilt", "dead  put refused", "superseded  put theirs", "superseded  put spoilt", "shown  put theirs")
	wantStatus(t, s.undo(k, ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "theirs")
	s.settle(k)
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
	s.settle(k)
	wantStatus(t, s.undo(k, ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "theirs")
	wantStatus(t, s.undo(k, "&to=2"), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "spoilt")
	wantDetail(t, s.undo(k, "&to=w100"), http.StatusNotFound, "revision w100 of n/k is not kept")
	for _, name := range []string{"w1", "w2", "w3"} { // upstream has shown the first
		wantStatus(t, s.undo(k, "&to="+name), http.StatusOK)
	}
	wantValue(t, s.get("/memory/n/k"), "theirs")
}

// The states that are kept here and those that upstream keeps are one list, with each state once.
func TestTheStatesHereAndUpstream(t *testing.T) {
	s, kept := newPast(t)
	k := id("n", "k")
	s.upstream.clock = 4e9 // the other host's clock is ahead
	s.foreign(kept, k, "theirs")
	wantValue(t, s.get("/memory/n/k"), "theirs")
	s.put(k, "unsent")
	s.put(k, "mine")
	s.wantStates(k, "pending here put mine", "superseded here put unsent", "settled there put theirs")
	s.settle(k)
	s.wantStates(k, "settled here put mine", "superseded here put unsent", "settled there put theirs")
	s.deadLetter(k, "refused")
	all := []string{"settled here put mine", "dead here put refused", "superseded here put unsent", "settled there put theirs"}
	s.wantStates(k, all...)

	kept.kept[k] = kept.kept[k][:1] // upstream forgets the oldest
	all[3] = "shown there put theirs"
	s.wantStates(k, all...)
	kept.keep(k, keptState{Value: "theirs", WrittenAt: 5e9, Host: "elsewhere"})
	s.wantStates(k, "settled elsewhere put theirs", "dead here put refused", "settled here put mine", all[2], all[3])
	wantStatus(t, s.undo(k, "&to=w3"), http.StatusOK) // the last one there
	wantStatus(t, s.undo(k, "&to=w1"), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "theirs")
}

// contract 17: a state of another host that was overwritten upstream is lost, also where upstream keeps it: there it is the one
// before the present one.
func TestALostStateThatUpstreamKeeps(t *testing.T) {
	s, kept := newPast(t)
	k := id("n", "k")
	s.put(k, "base")
	s.settle(k)
	s.put(k, "mine")
	kept.keep(k, keptState{Value: "theirs", CreatedAt: 1, WrittenAt: 2e9, Host: "there", Seq: 7})
	noError(t, s.journal.Fence.KeepOverwritten(k, journal.Observation{Value: "theirs", ListBytes: 6, UpdatedAt: 2e9, Host: "there"}))
	s.settle(k)
	s.wantStates(k, "settled here put mine", "lost there put theirs", "settled here put base")
	wantStatus(t, s.undo(k, ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "theirs")
}

// A delete of another host is one state, whether upstream keeps it, this daemon has seen its effect, or both.
func TestADeleteHereAndUpstream(t *testing.T) {
	for _, ahead := range []float64{-60, 0.001, 60} {
		s, kept := newPast(t)
		k := id("n", "k")
		s.foreign(kept, k, "theirs")
		wantValue(t, s.get("/memory/n/k"), "theirs")
		s.upstream.remove(k)
		wantStatus(t, s.get("/memory/n/k", "Cache-Control", "no-cache"), http.StatusNotFound)
		s.wantStates(k, "settled there put theirs", "shown  delete")
		kept.keep(k, keptState{Deleted: true, WrittenAt: float64(time.Now().UnixMicro())/1e6 + ahead, Host: "there"})
		s.wantStates(k, "settled there delete", "settled there put theirs")
		kept.become(unavailable{time.Second}, nil)
		s.wantStates(k, "shown  delete", "gone there put theirs")
		wantStatus(t, s.undo(k, ""), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "theirs")
	}
}

// After a write was refused or dropped, the present state is what upstream holds.
func TestUndoAfterADroppedWrite(t *testing.T) {
	s := newSidecar(t)
	for key, holds := range map[string]string{"none": "", "some": "theirs"} {
		k := id("n", key)
		if holds != "" {
			s.upstream.set(k, holds)
		}
		s.put(k, "mine")
		w, _, err := s.journal.Newest(k)
		if err == nil {
			err = s.journal.DeadLetter(w, journal.Failure{Kind: journal.Dropped, Reason: "no"})
		}
		if err != nil {
			t.Fatal(err)
		}
		present := "absent  delete"
		if holds != "" {
			present = "settled  put " + holds
		}
		seen := s.wantStates(k, present, "dead  put mine")
		wantDetail(t, s.undo(k, ""), http.StatusConflict, "no version of n/"+key+" before this one is kept")
		back := s.undo(k, "&to="+fmt.Sprint(w.Seq), "If-Match", seen.Header().Get("Etag"))
		wantStatus(t, back, http.StatusOK)
		var doc api.Undone
		if decode(t, back, &doc); doc.Undone.Text() != holds {
			t.Errorf("undone: %+v", doc.Undone)
		}
		wantValue(t, s.get("/memory/n/"+key), "mine")
	}
}

// An entry that upstream no longer lists is absent, too.
func TestUndoOfAnAbsenceFromTheListing(t *testing.T) {
	s := newSidecar(t)
	k := id("n", "k")
	s.put(k, "v")
	s.settle(k)
	s.upstream.remove(k)
	wantStatus(t, s.get("/memory/n", "Cache-Control", "no-cache"), http.StatusOK)
	s.wantStates(k, "shown  delete", "gone  put v")
	wantStatus(t, s.undo(k, ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "v")
}

// An entry that upstream no longer holds is absent, and an undo brings its last value back.
func TestUndoOfAnAbsence(t *testing.T) {
	s := newSidecar(t)
	k := id("n", "k")
	s.put(k, "v")
	s.settle(k)
	s.upstream.remove(k)
	wantStatus(t, s.get("/memory/n/k", "Cache-Control", "no-cache"), http.StatusNotFound)
	seen := s.wantStates(k, "shown  delete", "gone  put v")
	wantStatus(t, s.undo(k, "", "If-Match", seen.Header().Get("Etag")), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "v")
}

// contract 9: while upstream cannot be asked, the states here are listed and undone, and the list says what it
// lacks. If nothing is here, the answer is 503.
func TestTheStatesWhileUpstreamIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kept := newPast(t)
		s.upstream.setDown(true)
		for key, fail := range map[string]error{"k": unavailable{1500 * time.Millisecond}, "k2": context.DeadlineExceeded} {
			k := id("n", key)
			for _, value := range []string{"one", "two"} {
				s.put(k, value)
				s.settle(k)
			}
			kept.become(fail, nil)
			began := time.Now()
			w := s.wantStates(k, "settled here put two", "settled here put one")
			var doc api.Revisions
			if decode(t, w, &doc); doc.Complete || !strings.Contains(doc.Why, "upstream keeps are missing: upstream is unavailable") {
				t.Errorf("%s", w.Body)
			}
			wantStatus(t, s.undo(k, "", "If-Match", w.Header().Get("Etag")), http.StatusOK)
			wantValue(t, s.get("/memory/"+k.String()), "one")
			wantStatus(t, s.undo(k, "&to="+fmt.Sprintf("w%d", *doc.Revisions[0].Seq)), http.StatusOK)
			wantValue(t, s.get("/memory/"+k.String()), "two")
			if took := time.Since(began); took > 3*fakePatience {
				t.Errorf("%v: it took %s", fail, took)
			}
			w = s.get("/_botwired/revisions?namespace=n&key=none")
			wantDetail(t, w, http.StatusServiceUnavailable, "upstream is unavailable")
			if w.Header().Get("Retry-After") == "" {
				t.Errorf("%v: %v", fail, w.Header())
			}
			wantDetail(t, s.undo(id("n", "none"), ""), http.StatusServiceUnavailable, "upstream is unavailable")
			wantDetail(t, s.undo(k, "&to=4711"), http.StatusServiceUnavailable, "upstream is unavailable")
			s.put(id("n", "one-"+key), "1")
			wantDetail(t, s.undo(id("n", "one-"+key), ""), http.StatusServiceUnavailable, "upstream is unavailable")
		}
		kept.become(errors.New("broken"), nil)
		wantStatus(t, s.get("/_botwired/revisions?namespace=n&key=k"), http.StatusInternalServerError)
	})
}

// contract 5: an undo does not undo a write that came after the look at the states.
func TestAnUndoThatAWriteOvertakes(t *testing.T) {
	s, kept := newPast(t)
	k := id("n", "k")
	for _, value := range []string{"one", "two"} {
		s.put(k, value)
		s.settle(k)
	}
	kept.become(nil, func() {
		kept.become(nil, nil)
		s.put(k, "three") // it settles at once
		s.settle(k)
	})
	var doc api.Undone
	decode(t, s.undo(k, ""), &doc)
	if doc.Undone.Text() != "three" || doc.Now.Text() != "two" {
		t.Errorf("undid %q, and brought %q back", doc.Undone.Text(), doc.Now.Text())
	}
	wantValue(t, s.get("/memory/n/k"), "two")
}

func TestAnUndoWithoutRoom(t *testing.T) {
	s, _ := newPast(t, func(j *journal.Options, _ *proxy.Options) {
		j.MaxBytes, j.Full = 80_000, func(string) bool { return true }
	})
	k := id("n", "k")
	for _, value := range []string{"123456789", ""} {
		s.put(k, value)
		s.settle(k)
	}
	s.put(id("n", "other"), strings.Repeat("v", 9000))
	wantDetail(t, s.undo(k, ""), http.StatusRequestEntityTooLarge, "namespace n is full")
	wantValue(t, s.get("/memory/n/k"), "")
}

func TestAnUndoInAFullJournal(t *testing.T) {
	s, _ := newPast(t, func(j *journal.Options, _ *proxy.Options) { j.MaxBytes = 10_000 })
	k := id("n", "k")
	for _, value := range []string{strings.Repeat("x", 5000), ""} {
		s.put(k, value)
		s.settle(k)
	}
	s.put(id("n", "other"), strings.Repeat("x", 8000))
	wantDetail(t, s.undo(k, ""), http.StatusInsufficientStorage, "nothing of it is kept")
	wantValue(t, s.get("/memory/n/k"), "")
}

// In a write-through namespace, an undo writes through.
func TestAnUndoThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newPast(t, writesThrough)
		k := id("through", "k")
		s.put(k, "one")
		wantStatus(t, s.do(http.MethodDelete, "/memory/through/k", ""), http.StatusOK)
		s.put(k, "two")
		wantHeader(t, s.undo(k, ""), "Botwired-Write", "settled; seq=4")
		wantStatus(t, s.get("/memory/through/k"), http.StatusNotFound)
		wantHeader(t, s.undo(k, ""), "Botwired-Write", "settled; seq=5")
		wantValue(t, s.get("/memory/through/k"), "two")
		s.flusher.become(func(journal.Write) (bool, error) { return false, unconfirmed{time.Second} })
		wantDetail(t, s.undo(k, ""), http.StatusGatewayTimeout, "still pending")
		wantStatus(t, s.get("/memory/through/k"), http.StatusNotFound)
		s.flusher.become(func(journal.Write) (bool, error) { return false, refusedByUpstream{} })
		wantStatus(t, s.undo(k, ""), http.StatusUnprocessableEntity)
	})
}

// The monitor shows an undo among the other requests.
func TestTheMonitorShowsAnUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newPast(t)
		k := id("n", "k")
		for _, value := range []string{"one", "two"} {
			s.put(k, value)
			s.settle(k)
		}
		a := s.listen(s.listener(), "monitor")
		wantStatus(t, s.undo(k, ""), http.StatusOK)
		shown := a.take()
		if len(shown) != 1 {
			t.Fatalf("%d requests are shown", len(shown))
		}
		doc := read[api.AnsweredRequest](t, shown[0])
		if doc.Path != "/_botwired/undo" || doc.Namespace != "n" || doc.Key != "k" || doc.Answered != "pending" {
			t.Errorf("%s", shown[0].Data)
		}
	})
}

// readBeforeASeal reads an entry as upstream holds it, and then has its namespace sealed.
func (s *sidecar) readBeforeASeal(of journal.ID, value string) {
	s.t.Helper()
	s.upstream.set(of, value)
	wantStatus(s.t, s.get("/memory/"+of.Namespace+"/"+of.Key), http.StatusOK)
	s.upstream.remove(of)
	if err := s.journal.Rename(of.Namespace); err != nil {
		s.t.Fatal(err)
	}
	s.cache.Changed(of.Namespace, of.Key)
}

// A version from before a namespace was sealed says so. It is not the present state, neither while upstream is away and
// nobody knows that, nor if the entry has the same value again.
func TestVersionsFromBeforeASeal(t *testing.T) {
	s := newSidecar(t)
	k := id("n", "k")
	s.readBeforeASeal(k, "planted")
	s.upstream.setDown(true)
	wantStatus(t, s.get("/_botwired/revisions?namespace=n&key=k"), http.StatusServiceUnavailable)
	s.upstream.setDown(false)
	s.wantStates(k, "absent  delete", "unsealed  put planted")
	s.upstream.set(k, "planted") // another host has sealed it
	s.cache.Changed("n", "k")
	s.wantStates(k, "settled  put planted", "unsealed  put planted")
}

// Before a namespace was sealed, anybody could write it: an undo that names no version does not bring that back, as it
// would pass for memory then. One that names a version does.
func TestUndoDoesNotReachBehindASeal(t *testing.T) {
	s := newSidecar(t)
	k := id("n", "k")
	s.readBeforeASeal(k, "planted")
	s.put(k, "one")
	wantDetail(t, s.undo(k, ""), http.StatusConflict, "before the namespace was sealed")
	s.put(k, "two")
	wantStatus(t, s.undo(k, ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "one")
	wantStatus(t, s.undo(k, "&to=1"), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "planted")
}

// trim has the journal remove old versions for room.
func (s *sidecar) trim() {
	s.t.Helper()
	for range 3 {
		s.put(id("n", "large"), strings.Repeat("x", 90_000))
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if err := s.journal.Maintain(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.t.Fatal(err)
	}
	if s.journal.History.Since() == 0 {
		s.t.Fatal("nothing was removed")
	}
}

func tightHistory(j *journal.Options, _ *proxy.Options) { j.HistoryBytes = 100_000 }

// contract 13: an undo that names no version writes none but the one before the present one. Where that was removed for
// room, the list says so, and a person names another one.
func TestUndoStepsOverNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, tightHistory)
		k := id("n", "k")
		s.put(k, "one")
		s.settle(k)
		for _, value := range []string{"two", "three", "four"} {
			s.put(k, value)
		}
		s.trim()
		w := s.wantStates(k, "pending  put four", "settled  put one")
		var doc api.Revisions
		if decode(t, w, &doc); doc.Revisions[0].Gap != "forgotten" || doc.Revisions[1].Gap != "" {
			t.Errorf("%s", w.Body)
		}
		wantDetail(t, s.undo(k, ""), http.StatusConflict, "the version of n/k before this one was, or may have been, removed for room (history.disk). Name an older one")
		wantValue(t, s.get("/memory/n/k"), "four")
		s.settle(k)
		wantDetail(t, s.undo(k, ""), http.StatusConflict, "removed for room")
		wantStatus(t, s.undo(k, "&to=1"), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "one")
		wantStatus(t, s.undo(k, ""), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "four")
	})
}

// In front of an upstream that keeps states, one that is gone here may be there. If upstream alone keeps this daemon's own
// write, nobody knows which of its writes came before that one.
func TestUndoStepsOverNoGapUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kept := newPast(t, tightHistory)
		s.upstream.clock = 4e9 // the other host's clock is ahead
		k, own, theirs := id("n", "k"), id("n", "own"), id("n", "theirs")
		for _, of := range []journal.ID{k, own} {
			s.put(of, "one")
			s.settle(of)
		}
		s.put(k, "two")
		kept.keep(k, keptState{Value: "two", CreatedAt: 1, WrittenAt: float64(time.Now().UnixMicro()) / 1e6, Host: "here", Seq: 3})
		s.put(k, "three")
		s.put(own, "unsent")
		s.put(own, "two")
		s.settle(own)
		s.foreign(kept, own, "theirs")
		wantValue(t, s.get("/memory/n/own", "Cache-Control", "no-cache"), "theirs")
		s.foreign(kept, theirs, "before")
		s.foreign(kept, theirs, "after")
		s.trim()
		s.wantStates(k, "pending here put three", "settled here put two", "settled here put one")
		wantStatus(t, s.undo(k, ""), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "two")
		wantStatus(t, s.undo(own, ""), http.StatusOK)
		wantValue(t, s.get("/memory/n/own"), "two")
		wantStatus(t, s.undo(theirs, ""), http.StatusOK)
		wantValue(t, s.get("/memory/n/theirs"), "before")

		kept.mu.Lock()
		kept.kept[own] = kept.kept[own][1:] // the other host's write is purged
		kept.mu.Unlock()
		s.upstream.set(own, "two")
		if w, _, err := s.journal.Newest(own); err != nil {
			t.Fatal(err)
		} else if err := s.journal.DeadLetter(w, journal.Failure{Kind: journal.Dropped}); err != nil {
			t.Fatal(err)
		}
		wantDetail(t, s.undo(own, ""), http.StatusConflict, "may have been, removed for room")
	})
}
