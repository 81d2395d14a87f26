package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// exportedLine is a line of an export.
type exportedLine struct {
	Namespace, Key, Value string
	CreatedAt             float64 `json:"created_at"`
	UpdatedAt             float64 `json:"updated_at"`
	State                 string  `json:"state"`
	api.ExportEnd
}

// export returns the lines of an export, and its end.
func (s *sidecar) export(namespace string) (entries []exportedLine, end api.ExportEnd) {
	s.t.Helper()
	w := s.get("/_botwired/export?namespace=" + namespace)
	wantStatus(s.t, w, http.StatusOK)
	wantHeader(s.t, w, "Content-Type", "application/jsonl")
	if !strings.HasSuffix(w.Body.String(), "}\n") {
		s.t.Errorf("the last line does not end: %q", w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		if end.End.Namespace != "" {
			s.t.Errorf("there is a line behind the last one: %s", line)
		}
		var one exportedLine
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			s.t.Fatalf("%v in %q", err, line)
		}
		if one.End.Namespace != "" {
			end = one.ExportEnd
			continue
		}
		entries = append(entries, one)
	}
	if end.End.Namespace != namespace || end.End.Entries != len(entries) {
		s.t.Errorf("%d entries, and the end says %+v", len(entries), end)
	}
	return entries, end
}

// summary writes each entry in one line of text.
func summary(entries []exportedLine) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%s=%s %s\n", e.Key, e.Value, e.State)
	}
	return b.String()
}

// unusualValues are values that some step might spoil.
var unusualValues = map[string]string{
	".": "dot", "..": "dots", "a": "", "b": "a\x00b\x00", "c": "\r\n\t\b\f\"\\/\x1f\x7f", "d": "\u2028\u2029\ufeff\ufffd\u200d",
	"e": strings.Repeat("\U0001F600", 100_000), "f": "é\u0301 العربية 漢字 \U0010FFFF", "g": `{"value":"not this"}`, "h": "<script>&amp;",
}

// An export has every entry as a GET shows it, byte for byte, in the order of the keys.
func TestExportIsWhatReadersSee(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		for key, value := range unusualValues {
			s.put(id("n", key), value)
			s.put(id("n", "settled-"+key), value)
			s.settle(id("n", "settled-"+key))
			s.upstream.set(id("n", "theirs-"+key), value)
		}
		s.put(id("n", "gone"), "v")
		s.settle(id("n", "gone"))
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/gone", ""), http.StatusOK)
		s.put(id("other", "k"), "v")
		entries, end := s.export("n")
		if len(entries) != 3*len(unusualValues) || !end.End.Complete || end.End.Missing != 0 || end.End.Why != "" {
			t.Errorf("%d entries, %+v", len(entries), end)
		}
		last := ""
		for _, e := range entries {
			w := s.get("/memory/n/" + e.Key)
			wantStatus(t, w, http.StatusOK)
			var want exportedLine
			decode(t, w, &want)
			want.State = e.State
			if want != e {
				t.Errorf("%s: %+v, want %+v", e.Key, e, want)
			}
			if pending := !strings.Contains(e.Key, "-"); (e.State == "pending") != pending {
				t.Errorf("%s is %s", e.Key, e.State)
			}
			if e.Key <= last {
				t.Errorf("%s comes after %s", e.Key, last)
			}
			last = e.Key
		}
		synctest.Wait()
	})
}

// Upstream is asked for its list, for the values that are not here, and for the copies that the list does not
// confirm: nothing else, and each once.
func TestExportAsksForWhatIsNotKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		for _, key := range []string{"a", "b", "c"} {
			s.learn(id("n", key), "v")
		}
		s.put(id("n", "mine"), "v")
		time.Sleep(usual.FreshFor + usual.StaleWhileRevalidate)
		s.upstream.set(id("n", "b"), "changed")
		s.upstream.remove(id("n", "c"))
		s.upstream.set(id("n", "new"), "v")
		s.upstream.take()
		entries, end := s.export("n")
		if got := summary(entries); got != "a=v settled\nb=changed settled\nmine=v pending\nnew=v settled\n" || !end.End.Complete {
			t.Errorf("%s%+v", got, end)
		}
		asked := s.upstream.take()
		if len(asked) != 3 || asked[0].ID.Key != "" || asked[1].ID.Key+asked[2].ID.Key != "bnew" && asked[1].ID.Key+asked[2].ID.Key != "newb" {
			t.Errorf("upstream was asked %+v", asked)
		}
		s.export("n")
		wantAsked(t, s)
		synctest.Wait()
	})
}

// An export that may lack entries says so and why.
func TestExportThatMayNotBeAll(t *testing.T) {
	const behind = 70 * time.Second
	for name, c := range map[string]struct {
		prepare func(s *sidecar)
		want    string
		missing int
		why     []string
	}{
		"never listed": {func(s *sidecar) {
			s.learn(id("n", "a"), "v")
			s.upstream.setDown(true)
		}, "a=v settled\nmine=v pending\n", 0, []string{"never listed", "connection refused", "does not know are missing"}},
		"listed once": {func(s *sidecar) {
			s.learn(id("n", "a"), "v")
			wantStatus(s.t, s.get("/memory/n"), http.StatusOK)
			time.Sleep(behind)
			s.upstream.setDown(true)
		}, "a=v settled\nmine=v pending\n", 0, []string{"connection refused", "since its last list may be missing"}},
		"values that are not here": {func(s *sidecar) {
			s.upstream.set(id("n", "a"), "v")
			s.upstream.set(id("n", "b"), "v")
			wantStatus(s.t, s.get("/memory/n"), http.StatusOK)
			s.upstream.setDown(true)
		}, "mine=v pending\n", 2, []string{"the values of some keys are not known here", "connection refused"}},
		"more than upstream lists": {func(s *sidecar) {
			s.upstream.most = 2
			for _, k := range []string{"a", "b", "c"} {
				s.upstream.set(id("n", k), "v")
			}
		}, "b=v settled\nc=v settled\nmine=v pending\n", 0, []string{"no more than its newest 1000 keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *sidecar) {
				s.put(id("n", "mine"), "v")
				c.prepare(s)
				entries, end := s.export("n")
				if got := summary(entries); got != c.want || end.End.Complete || end.End.Missing != c.missing {
					t.Errorf("%s%+v", got, end)
				}
				for _, part := range c.why {
					if !strings.Contains(end.End.Why, part) {
						t.Errorf("why: %q, want %q in it", end.End.Why, part)
					}
				}
				synctest.Wait()
			})
		})
	}
}

// When botwired stops, an export ends with a line that says so. A final refusal by upstream is an answer.
func TestExportThatEndsEarly(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.put(id("n", "a"), "v")
		s.upstream.set(id("n", "b"), "v")
		wantStatus(t, s.get("/memory/n"), http.StatusOK)
		questions := s.upstream.hold()
		reader := s.begin(http.MethodGet, "/_botwired/export?namespace=n", "")
		<-questions // for b
		s.server.EndWaits()
		w := <-reader
		if text := w.Body.String(); !strings.Contains(text, `"complete":false`) || !strings.HasSuffix(text, "}\n") {
			t.Errorf("it ends with %s", text)
		}
	})
	s := newSidecar(t)
	s.upstream.refuse(refused{status: http.StatusForbidden})
	_, end := s.export("n")
	if end.End.Complete || !strings.Contains(end.End.Why, "never listed") {
		t.Errorf("%+v", end)
	}
	if w := s.do(http.MethodHead, "/_botwired/export?namespace=n", ""); w.Body.Len() != 0 {
		t.Errorf("HEAD is answered with %s", w.Body)
	}
}

// gauged counts lines, and samples the heap.
type gauged struct {
	httptest.ResponseRecorder
	lines, bytes int
	last         []byte
	most         uint64
}

func (g *gauged) Write(p []byte) (int, error) {
	const every = 500
	before := g.lines / every
	g.lines += bytes.Count(p, []byte("\n"))
	g.bytes += len(p)
	g.last = append(g.last[:0], p...)
	if g.lines/every > before {
		g.most = max(g.most, heap())
	}
	return len(p), nil
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// An export's memory does not grow with the entries: here they are several times as large.
func TestExportTakesLittleMemory(t *testing.T) {
	const entries, size, most = 2_000, 12_000, 8 << 20
	s := newSidecar(t)
	value := strings.Repeat("x", size)
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for i := w; i < entries; i += 16 {
				_, err := s.journal.Append(journal.NewWrite{
					ID: id("n", "key-"+strconv.Itoa(i)), Op: journal.Put, Value: value, ListBytes: wire.ListBytes(value),
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	export := func() *gauged {
		w := &gauged{ResponseRecorder: *httptest.NewRecorder()}
		s.server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_botwired/export?namespace=n", nil))
		return w
	}
	export() // it leaves blocks in Pebble's cache, which has its own bound
	before := heap()
	w := export()
	if w.lines != entries+1 || w.bytes < entries*size || !bytes.Contains(w.last, []byte(`"complete":true`)) {
		t.Fatalf("%d lines, %d bytes, the end is %s", w.lines, w.bytes, w.last[max(0, len(w.last)-200):])
	}
	t.Logf("%d MB of entries took %d KB", w.bytes>>20, (int64(w.most)-int64(before))>>10)
	if w.most > before+most {
		t.Errorf("the heap grew from %d to %d bytes", before, w.most)
	}
}
