package proxy_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// tag returns the tag of an entry, which must exist.
func (s *sidecar) tag(id journal.ID, headers ...string) string {
	s.t.Helper()
	w := s.get("/memory/"+id.String(), headers...)
	wantStatus(s.t, w, http.StatusOK)
	tag := w.Header().Get("ETag")
	if len(tag) < 4 || !strings.HasPrefix(tag, `"`) || !strings.HasSuffix(tag, `"`) {
		s.t.Fatalf("ETag: %q", tag)
	}
	return tag
}

// crash returns the daemon after a crash of its machine.
func (s *sidecar) crash(fs *vfs.MemFS) *sidecar {
	return newSidecar(s.t, func(stored *journal.Options, opts *proxy.Options) {
		stored.FS, opts.Upstream = fs.CrashClone(vfs.CrashCloneCfg{}), s.upstream
	})
}

// Each write of this host has its own tag, and keeps it.
func TestATagNamesAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		first := newSidecar(t, func(stored *journal.Options, _ *proxy.Options) { stored.FS = fs })
		s, k := first, id("n", "k")
		seen := make(map[string]string)
		var tag string
		isNew := func(what, now string) {
			t.Helper()
			if before, ok := seen[now]; ok {
				t.Errorf("%s has the tag %s of %s", what, now, before)
			}
			seen[now], tag = what, now
		}
		isKept := func(what string, headers ...string) {
			t.Helper()
			if now := s.tag(k, headers...); now != tag {
				t.Errorf("%s: the tag is %s, and was %s", what, now, tag)
			}
		}
		isNew("the first write", s.put(k, "one").Header().Get("ETag"))
		isKept("read")
		isNew("the same value again", s.put(k, "one").Header().Get("ETag"))
		isNew("another value", s.put(k, "two").Header().Get("ETag"))
		isNew("the first value again", s.put(k, "one").Header().Get("ETag"))
		isKept("pending")
		s = first.crash(fs)
		isKept("pending, after a crash")
		s = first
		s.settle(k)
		isKept("settled")
		time.Sleep(usual.FreshFor)
		isKept("while upstream is asked again")
		synctest.Wait()
		isKept("as upstream has shown it")
		isKept("as upstream shows it", "Cache-Control", "no-cache")
		s = first.crash(fs)
		isKept("settled, after a crash")

		s = first
		s.upstream.set(k, "one") // by another host
		isNew("another host's write of the same value", s.tag(k, "Cache-Control", "no-cache"))
		s.upstream.set(k, "theirs")
		isNew("another host's write", s.tag(k, "Cache-Control", "no-cache"))
		time.Sleep(usual.FreshFor + usual.StaleWhileRevalidate)
		isKept("asked for again")
		s = first.crash(fs)
		isKept("another host's, after a crash")
		s = first
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
		isNew("a write after a delete", s.put(k, "one").Header().Get("ETag"))
		s.settle(k)
		isKept("settled")
		synctest.Wait()
	})
}

// conditional is the header of a conditional write.
type conditional struct{ header, value string }

func (c conditional) put(s *sidecar, id journal.ID) int {
	return s.do(http.MethodPut, "/memory/"+id.String(), putBody("new"), c.header, c.value).Code
}

func (c conditional) remove(s *sidecar, id journal.ID) int {
	return s.do(http.MethodDelete, "/memory/"+id.String(), "", c.header, c.value).Code
}

// coded puts a tag in place of TAG in a condition, and in place of CODED(x) with x behind it.
func coded(condition, tag string) string {
	condition = regexp.MustCompile(`CODED\((.*)\)`).ReplaceAllString(condition, strings.TrimSuffix(tag, `"`)+`$1"`)
	return strings.ReplaceAll(condition, "TAG", tag)
}

// What a gateway leaves alone counts in place of what it may have changed or dropped.
func TestTagsAndConditionsPassGateways(t *testing.T) {
	s, k := newSidecar(t), id("n", "k")
	first := s.put(k, "one").Header().Get("Botwired-ETag")
	if first == "" || first != s.tag(k) {
		t.Errorf("a write's tag is %q, and a read's %s", first, s.tag(k))
	}
	s.put(k, "two")
	for _, path := range []string{"/memory/n/k", "/_botwired/revisions?namespace=n&key=k"} {
		if h := s.get(path).Header(); h.Get("Botwired-ETag") == "" || h.Get("Botwired-ETag") != h.Get("ETag") {
			t.Errorf("%s: %v", path, h)
		}
	}
	put := func(headers ...string) int {
		return s.do(http.MethodPut, "/memory/n/k", putBody("new"), headers...).Code
	}
	for name, headers := range map[string][]string{
		"it alone":       {"Botwired-If-Match", first},
		"both":           {"Botwired-If-Match", first, "If-Match", s.tag(k)},
		"of absence":     {"Botwired-If-None-Match", "*"},
		"and of a state": {"Botwired-If-None-Match", s.tag(k), "If-None-Match", first},
	} {
		if code := put(headers...); code != http.StatusPreconditionFailed {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code := put("Botwired-If-Match", "no tag"); code != http.StatusBadRequest {
		t.Errorf("no tag: %d", code)
	}
	if code := put("Botwired-If-Match", s.tag(k), "Botwired-Idempotency-Key", "a", "Idempotency-Key", "b"); code != http.StatusOK {
		t.Fatal(code)
	}
	if n := s.journal.Stats().LastSeq; put("Botwired-If-Match", first, "Botwired-Idempotency-Key", "a") != http.StatusOK || s.journal.Stats().LastSeq != n {
		t.Errorf("a named write was made twice")
	}
}

// RFC 9110, sections 13.1.1, 13.1.2 and 13.2.1.
func TestConditionsOfWrites(t *testing.T) {
	const met, unmet, gone = http.StatusOK, http.StatusPreconditionFailed, http.StatusNotFound
	for _, c := range []struct {
		conditional
		ofAbsent, ofPresent int // PUT
		removed             int // a DELETE of a present entry
	}{
		{conditional{"If-Match", "TAG"}, unmet, met, met},
		{conditional{"If-Match", `"other"`}, unmet, unmet, unmet},
		{conditional{"If-Match", "W/TAG"}, unmet, met, met},
		{conditional{"If-Match", "CODED(-gzip)"}, unmet, met, met},
		{conditional{"If-Match", `W/CODED(--gzip), "other"`}, unmet, met, met},
		{conditional{"If-Match", "CODED(-gzip;br)"}, unmet, met, met},
		{conditional{"If-Match", "CODED(;;;)"}, unmet, met, met},
		{conditional{"If-Match", "CODED(gzip)"}, unmet, unmet, unmet},
		{conditional{"If-Match", "CODED(0)"}, unmet, unmet, unmet},
		{conditional{"If-Match", "CODED(-GZ)"}, unmet, unmet, unmet},
		{conditional{"If-Match", `"-gzip"`}, unmet, unmet, unmet},
		{conditional{"If-None-Match", "CODED(-br)"}, met, unmet, unmet},
		{conditional{"If-Match", `"other", TAG`}, unmet, met, met},
		{conditional{"If-Match", ` ,, W/"x",TAG ,`}, unmet, met, met},
		{conditional{"If-Match", "*"}, unmet, met, met},
		{conditional{"If-None-Match", "*"}, met, unmet, unmet},
		{conditional{"If-None-Match", "TAG"}, met, unmet, unmet},
		{conditional{"If-None-Match", "W/TAG"}, met, unmet, unmet},
		{conditional{"If-None-Match", `"other"`}, met, met, met},
		{conditional{"If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"}, met, met, met},
	} {
		t.Run(c.header+" "+c.value, func(t *testing.T) {
			s := newSidecar(t)
			try := func(what string, id journal.ID, want int, write func(conditional, *sidecar, journal.ID) int) {
				t.Helper()
				with := c.conditional
				if strings.Contains(with.value, "TAG") || strings.Contains(with.value, "CODED") {
					tag := `"none"`
					if s.get("/memory/"+id.String()).Code == http.StatusOK {
						tag = s.tag(id)
					}
					with.value = coded(with.value, tag)
				}
				before := s.writes()
				got := write(with, s, id)
				if wrote := s.writes() - before; got != want || (got == met) != (wrote == 1) {
					t.Errorf("%s: %d and %d writes, want %d", what, got, wrote, want)
				}
			}
			put, remove := conditional.put, conditional.remove
			s.put(id("n", "deleted"), "v")
			wantStatus(t, s.do(http.MethodDelete, "/memory/n/deleted", ""), met)
			try("delete of a deleted entry", id("n", "deleted"), gone, remove)
			try("delete of an entry that upstream does not hold", id("n", "none"), gone, remove)
			try("put over a tombstone", id("n", "deleted"), c.ofAbsent, put)
			try("put where upstream holds nothing", id("n", "absent"), c.ofAbsent, put)
			s.put(id("n", "pending"), "v")
			try("put over a pending write", id("n", "pending"), c.ofPresent, put)
			s.put(id("n", "pending"), "v")
			try("delete of a pending write", id("n", "pending"), c.removed, remove)
			for _, k := range []journal.ID{id("n", "settled"), id("n", "settled2")} {
				s.put(k, "v")
				s.settle(k)
			}
			try("put over a settled copy", id("n", "settled"), c.ofPresent, put)
			try("delete of a settled copy", id("n", "settled2"), c.removed, remove)
			s.upstream.set(id("n", "theirs"), "v")
			try("put over what upstream holds", id("n", "theirs"), c.ofPresent, put)
		})
	}
}

// writes returns how many writes the journal has taken.
func (s *sidecar) writes() int {
	st := s.journal.Stats()
	return st.Pending + st.Receipts
}

// Both conditions must hold. Several lines of one header form one list.
func TestSeveralConditions(t *testing.T) {
	s, k := newSidecar(t), id("n", "k")
	tag := s.put(k, "v").Header().Get("ETag")
	wantStatus(t, s.do(http.MethodPut, "/memory/n/k", putBody("new"), "If-Match", tag, "If-None-Match", tag), http.StatusPreconditionFailed)
	wantStatus(t, s.do(http.MethodPut, "/memory/n/k", putBody("new"), "If-Match", `"x"`, "If-None-Match", `"x"`), http.StatusPreconditionFailed)
	s.put(k, "new", "If-Match", `"x"`, "If-Match", tag, "If-None-Match", `"x"`)
}

func TestMalformedConditions(t *testing.T) {
	s := newSidecar(t)
	s.put(id("n", "k"), "v")
	before := s.journal.Stats().LastSeq
	for _, value := range []string{
		"", " ", ",", "17-abc", `"open`, `open"`, `"a" "b"`, `"a""b"`, `"a"b`, `*, "a"`, `"a", *`, "**", `w/"a"`, `W/a`, "W/", `"a b"`, "\"a\tb\"", "\"a\x7f\"", `"a";"b"`,
	} {
		for _, header := range []string{"If-Match", "If-None-Match"} {
			for method, body := range map[string]string{http.MethodGet: "", http.MethodPut: putBody("new"), http.MethodDelete: ""} {
				w := s.do(method, "/memory/n/k", body, header, value)
				if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), header+" must be *, or entity tags") {
					t.Errorf("%s with %s: %q: %d %s", method, header, value, w.Code, w.Body)
				}
			}
		}
	}
	if n := s.journal.Stats().LastSeq; n != before {
		t.Errorf("%d writes were made", n-before)
	}
	wantStatus(t, s.get("/memory/n", "If-Match", "any"), http.StatusOK) // a LIST has no tag
}

func TestConditionsOfReads(t *testing.T) {
	s, k := newSidecar(t), id("n", "k")
	s.put(k, "v")
	tag := s.tag(k)
	for _, c := range []struct {
		header, value string
		status        int
	}{
		{"If-None-Match", tag, http.StatusNotModified},
		{"If-None-Match", "W/" + tag, http.StatusNotModified},
		{"If-None-Match", "*", http.StatusNotModified},
		{"If-None-Match", `"x", W/` + tag + `, "y"`, http.StatusNotModified},
		{"If-None-Match", `"x"`, http.StatusOK},
		{"If-Match", tag, http.StatusOK},
		{"If-Match", "*", http.StatusOK},
		{"If-Match", "W/" + tag, http.StatusOK},
		{"If-None-Match", coded("CODED(-zstd)", tag), http.StatusNotModified},
		{"If-Match", `"x"`, http.StatusPreconditionFailed},
	} {
		w := s.get("/memory/n/k", c.header, c.value)
		if w.Code != c.status || w.Header().Get("ETag") != tag || w.Header().Get("Cache-Status") != "botwired; hit; detail=pending" {
			t.Errorf("%s: %s: %d with %v", c.header, c.value, w.Code, w.Header())
		}
		if c.status == http.StatusNotModified && (w.Body.Len() > 0 || w.Header().Get("Content-Length") != "") {
			t.Errorf("%s: %s: %v %s", c.header, c.value, w.Header(), w.Body)
		}
		wantStatus(t, s.get("/memory/n/absent", c.header, c.value), http.StatusNotFound)
	}
	w := s.get("/memory/n/absent")
	wantHeader(t, w, "ETag", "")
	wantHeader(t, s.get("/memory/n"), "ETag", "")
}

// contract 9: a condition on an unknown entry asks upstream, once.
func TestAConditionOnTheUnknownAsksUpstream(t *testing.T) {
	for name, policy := range map[string]cache.Policy{"usual": usual, "nothing is ever fresh": {}} {
		t.Run(name, func(t *testing.T) {
			s, create := newSidecar(t), conditional{"If-None-Match", "*"}
			s.policy = policy
			s.upstream.set(id("n", "theirs"), "v")
			for k, want := range map[string]int{"theirs": http.StatusPreconditionFailed, "absent": http.StatusOK} {
				if got := create.put(s, id("n", k)); got != want {
					t.Errorf("%s: %d", k, got)
				}
				wantAsked(t, s, question{ID: id("n", k), Waits: true})
			}
			tag := s.tag(id("n", "theirs"))
			s.upstream.set(id("n", "theirs"), "another host's")
			if s.policy.FreshFor == 0 { // else the copy answers, as for a GET
				if got := (conditional{"If-Match", tag}).put(s, id("n", "theirs")); got != http.StatusPreconditionFailed {
					t.Errorf("over another host's write: %d", got)
				}
			}
			before := s.journal.Stats().LastSeq
			s.upstream.setDown(true)
			for _, method := range []string{http.MethodPut, http.MethodDelete} {
				for _, c := range []conditional{create, {"If-Match", "*"}, {"If-Match", tag}} {
					w := s.do(method, "/memory/n/unknown", putBody("v"), c.header, c.value)
					wantDetail(t, w, http.StatusServiceUnavailable, "not known here, and upstream")
					wantHeader(t, w, "Retry-After", "2")
				}
			}
			s.upstream.setDown(false)
			s.upstream.refuse(refused{status: http.StatusForbidden})
			wantStatus(t, s.do(http.MethodPut, "/memory/n/unknown", putBody("v"), "If-Match", "*"), http.StatusForbidden)
			if n := s.journal.Stats().LastSeq; n != before {
				t.Errorf("%d writes were made", n-before)
			}
		})
	}
}

// In an outage, a condition is checked against the answer that a GET would get.
func TestAConditionInAnOutageGoesByTheCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		k := id("n", "k")
		s.learn(k, "theirs")
		tag := s.tag(k)
		time.Sleep(usual.FreshFor + usual.StaleWhileRevalidate)
		s.upstream.setDown(true)
		if got := (conditional{"If-Match", `"other"`}).put(s, k); got != http.StatusPreconditionFailed {
			t.Errorf("with another tag: %d", got)
		}
		s.put(k, "new", "If-Match", tag)
		synctest.Wait()
	})
}

// contract 5: if something comes between the look at an entry and the write, the condition is checked again.
// Here it comes when the policy is asked, after the look.
func TestAConditionHoldsWhenTheWriteIsMade(t *testing.T) {
	k := id("n", "k")
	for name, c := range map[string]struct {
		between func(s *sidecar)
		want    int
	}{
		"nothing":             {func(*sidecar) {}, http.StatusOK},
		"a write":             {func(s *sidecar) { s.put(k, "theirs") }, http.StatusPreconditionFailed},
		"a write of the same": {func(s *sidecar) { s.put(k, "v") }, http.StatusPreconditionFailed},
		"a write that settles": {func(s *sidecar) {
			s.put(k, "theirs")
			s.settle(k)
		}, http.StatusPreconditionFailed},
		"a delete": {func(s *sidecar) {
			wantStatus(s.t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
		}, http.StatusPreconditionFailed},
		"another host's write": {func(s *sidecar) {
			s.upstream.set(k, "theirs")
			s.get("/memory/n/k", "Cache-Control", "no-cache")
		}, http.StatusPreconditionFailed},
		"a write of another entry": {func(s *sidecar) { s.put(id("n", "other"), "v") }, http.StatusOK},
	} {
		for _, settled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, settled: %t", name, settled), func(t *testing.T) {
				if !settled && name == "another host's write" {
					return // a read does not ask upstream about a pending entry
				}
				between, done := func() {}, atomic.Bool{} // a read asks the policy again
				s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
					policy := o.Policy
					o.Policy = func(namespace string) cache.Policy {
						between()
						return policy(namespace)
					}
				})
				tag := s.put(k, "v").Header().Get("ETag")
				if settled {
					s.settle(k)
				}
				between = func() {
					if !done.Swap(true) {
						c.between(s)
					}
				}
				if got := (conditional{"If-Match", tag}).put(s, k); got != c.want {
					t.Errorf("%d, want %d", got, c.want)
				}
			})
		}
	}
}

// A write that settles meanwhile does not change the state.
func TestSettlingKeepsACondition(t *testing.T) {
	k := id("n", "k")
	settle := func() {}
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.Policy = func(string) cache.Policy {
			settle()
			return usual
		}
	})
	tag := s.put(k, "v").Header().Get("ETag")
	settle = sync.OnceFunc(func() { s.settle(k) })
	s.put(k, "new", "If-Match", tag)
	wantValue(t, s.get("/memory/n/k"), "new")
}

// A write that comes while upstream is asked decides the condition.
func TestAWriteWhileUpstreamIsAskedDecidesACondition(t *testing.T) {
	for name, settles := range map[string]bool{"pending": false, "settled": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *sidecar) {
				questions := s.upstream.hold()
				create := s.begin(http.MethodPut, "/memory/n/k", putBody("mine"), "If-None-Match", "*")
				held := <-questions
				s.upstream.release()
				s.put(id("n", "k"), "theirs")
				if settles {
					s.settle(id("n", "k"))
				}
				close(held.answer)
				wantStatus(t, <-create, http.StatusPreconditionFailed)
				wantValue(t, s.get("/memory/n/k"), "theirs")
			})
		})
	}
}
