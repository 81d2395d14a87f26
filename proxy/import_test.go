package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// importLine returns a line of a file.
func importLine(key, value string, updatedAt float64) string {
	text, err := json.Marshal(map[string]any{"namespace": "n", "key": key, "value": value, "updated_at": updatedAt, "later": 1})
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

func (s *sidecar) imports(query, body string) (w *httptest.ResponseRecorder, doc api.Imported) {
	s.t.Helper()
	w = s.do(http.MethodPost, "/_botwired/import"+query, body)
	if w.Code != http.StatusBadRequest {
		decode(s.t, w, &doc)
	}
	return w, doc
}

// wantImported imports lines and checks their outcomes.
func (s *sidecar) wantImported(query, body string, want api.Imported) {
	s.t.Helper()
	w, got := s.imports(query, body)
	wantStatus(s.t, w, http.StatusOK)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("imported (-want +got):\n%s", diff)
	}
}

// Exported and imported entries read as before, byte for byte, before and after upstream has them. They keep
// their times.
func TestExportAndImport(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		for key, value := range unusualValues {
			s.put(id("n", key), value)
			s.upstream.set(id("n", "theirs-"+key), value)
		}
		n := 2 * len(unusualValues)
		file := s.get("/_botwired/export?namespace=n").Body.String()
		entries, _ := s.export("n")
		time.Sleep(time.Hour)
		for namespace, query := range map[string]string{"n": "", "copy": "?namespace=copy"} {
			other := newSidecar(t)
			lines := n + 1
			want := api.Imported{Lines: lines, Written: n}
			other.wantImported(query, file, want)
			for _, e := range entries {
				w, ok, err := other.journal.Newest(id(namespace, e.Key))
				if err != nil || !ok || w.WrittenAt != e.UpdatedAt || !w.LosesTies || !w.Fenced {
					t.Errorf("%s: %+v, %t, %v, want it to be of %f", e.Key, w.WrittenAt, ok, err, e.UpdatedAt)
				}
				wantValue(t, other.get("/memory/"+namespace+"/"+e.Key), e.Value)
			}
			again := api.Imported{Lines: lines, Same: n}
			other.wantImported(query, file, again)
			wantStatus(t, other.do(http.MethodPost, "/_botwired/flush", ""), http.StatusOK)
			other.wantImported(query, file, again)
			for _, e := range entries {
				wantValue(t, other.get("/memory/"+namespace+"/"+e.Key), e.Value)
				if held, _ := other.upstream.holds(id(namespace, e.Key)); held != e.Value {
					t.Errorf("upstream holds %.20q of %s", held, e.Key)
				}
			}
			if seq := other.journal.Stats().LastSeq; seq != uint64(n) {
				t.Errorf("%d entries took %d writes", n, seq)
			}
			if got, end := other.export(namespace); len(got) != n || !end.End.Complete {
				t.Errorf("%d entries are exported again: %+v", len(got), end)
			}
		}
		synctest.Wait()
	})
}

// importedOver is the outcome of lines over a state of the entry.
type importedOver struct {
	prepare func(s *sidecar)
	older   api.Imported // outcome of an older line
	newer   api.Imported // outcome of a newer line
}

var importedOverStates = map[string]importedOver{
	"nothing": {func(*sidecar) {}, api.Imported{Written: 1}, api.Imported{Written: 1}},
	"pending": {func(s *sidecar) { s.put(imported, "there") }, api.Imported{Older: 1}, api.Imported{Written: 1}},
	"settled": {func(s *sidecar) {
		s.put(imported, "there")
		s.settle(imported)
	}, api.Imported{Older: 1}, api.Imported{Written: 1}},
	"a pending delete": {func(s *sidecar) {
		s.put(imported, "there")
		s.settle(imported)
		wantStatus(s.t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
	}, api.Imported{Older: 1}, api.Imported{Written: 1}},
	"deleted": {func(s *sidecar) {
		s.learn(imported, "there")
		wantStatus(s.t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
		s.settle(imported)
	}, api.Imported{Written: 1}, api.Imported{Written: 1}},
	"upstream": {func(s *sidecar) { s.upstream.set(imported, "there") }, api.Imported{Older: 1}, api.Imported{Written: 1}},
	"upstream, and an old copy": {func(s *sidecar) {
		s.upstream.set(imported, "old")
		wantValue(s.t, s.get("/memory/n/k"), "old")
		s.upstream.set(imported, "there")
		time.Sleep(usual.FreshFor)
	}, api.Imported{Older: 1}, api.Imported{Written: 1}},
	"gone upstream, and an old copy": {func(s *sidecar) {
		s.learn(imported, "there")
		s.upstream.remove(imported)
		time.Sleep(usual.FreshFor)
	}, api.Imported{Written: 1}, api.Imported{Written: 1}},
	"an outage": {func(s *sidecar) { s.upstream.setDown(true) }, api.Imported{Written: 1}, api.Imported{Written: 1}},
	"an outage, and a copy": {func(s *sidecar) {
		s.learn(imported, "there")
		time.Sleep(time.Hour)
		s.upstream.setDown(true)
	}, api.Imported{Older: 1}, api.Imported{Written: 1}},
}

// imported is the entry of these lines.
var imported = id("n", "k")

// The later state by time wins, wherever the earlier one is.
func TestImportGivesWayToWhatIsNewer(t *testing.T) {
	for name, c := range importedOverStates {
		for when, want := range map[string]api.Imported{"older": c.older, "newer": c.newer} {
			t.Run(name+", "+when, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *sidecar) {
					s.upstream.clock = float64(time.Now().Unix())
					before := s.upstream.clock - 1
					time.Sleep(time.Second)
					c.prepare(s)
					time.Sleep(2 * time.Second)
					at := before
					if when == "newer" {
						at = float64(time.Now().Unix())
					}
					agents := s.journal.Stats().Pending
					want.Lines = 1
					line := importLine("k", "file", at)
					s.wantImported("", line, want)
					if taken := want.Written == 1; taken {
						w, ok, err := s.journal.Newest(imported)
						if err != nil || !ok || w.Value != "file" || w.WrittenAt != at || w.LosesTies == (agents == 1) {
							t.Errorf("%+v, %t, %v", w, ok, err)
						}
						s.wantImported("", line, api.Imported{Lines: 1, Same: 1})
					} else if got := s.journal.Stats().Pending; got != agents {
						t.Errorf("%d are pending, and were %d before", got, agents)
					}
					synctest.Wait()
				})
			})
		}
	}
}

// A pending write is as old as its caller says: of two lines of an entry the later one stays. It gives way
// upstream without a dead letter, as the first would.
func TestImportOfTwoLinesOfAnEntry(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.setDown(true)
		now := float64(time.Now().Unix())
		older, newer := importLine("k", "older", now-5000), importLine("k", "newer", now-100)
		s.wantImported("", older+newer, api.Imported{Lines: 2, Written: 2})
		s.wantImported("", older+newer, api.Imported{Lines: 2, Same: 1, Older: 1})
		w, ok, err := s.journal.Newest(imported)
		if err != nil || !ok || w.Value != "newer" || w.WrittenAt != now-100 || !w.LosesTies {
			t.Errorf("%+v, %t, %v", w, ok, err)
		}
		synctest.Wait()
	})
}

// An import compares a line with the time of the copy that is being restored, not with the earlier time that
// the restore has given the pending write.
func TestImportOverARestoredCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.clock = float64(time.Now().Unix())
		s.learn(imported, "there")
		restored := journal.NewWrite{
			ID: imported, Op: journal.Put, Value: "there", ListBytes: 5, WrittenAt: beforeAll, LosesTies: true, Fenced: true,
		}
		if _, err := s.journal.Append(restored); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		at := s.upstream.clock
		s.wantImported("", importLine("k", "older", at-5), api.Imported{Lines: 1, Older: 1})
		s.wantImported("", importLine("k", "newer", at+5), api.Imported{Lines: 1, Written: 1})
		synctest.Wait()
	})
}

// A line without a time gives way to anything. A time in the future counts as now.
func TestTimesOfImportedLines(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.put(id("n", "there"), "v")
		s.wantImported("", `{"namespace":"n","key":"new","value":"x"}`+"\n"+`{"namespace":"n","key":"there","value":"x"}`+"\n\n"+
			importLine("future", "x", 4e9)+`{"end":{"namespace":"n","entries":3,"complete":true}}`, api.Imported{Lines: 5, Written: 2, Older: 1})
		for key, want := range map[string]float64{"new": 1, "future": float64(time.Now().Unix())} {
			if w, _, err := s.journal.Newest(id("n", key)); err != nil || w.WrittenAt != want {
				t.Errorf("%s is of %f, %v, want %f", key, w.WrittenAt, err, want)
			}
		}
	})
}

// An entry may have any other fields, also one by the name of what ends an export.
func TestImportIgnoresTheOtherFieldsOfAnEntry(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.setDown(true)
		var lines strings.Builder
		for i, end := range []string{`{}`, `{"namespace":"n","entries":0}`, `"2026-11-27"`, `5`, `null`, `[]`} {
			fmt.Fprintf(&lines, `{"namespace":"n","key":"k%d","value":"v","begin":1,"end":%s}`+"\n", i, end)
		}
		s.wantImported("", lines.String()+`{"end":{"namespace":"n","entries":6,"complete":true}}`, api.Imported{Lines: 7, Written: 6})
		synctest.Wait()
	})
}

// If one line of a request cannot be imported, none is.
func TestImportOfLinesThatAreNoEntries(t *testing.T) {
	s := newSidecar(t)
	good := importLine("k", "v", 1)
	for line, want := range map[string]string{
		"{":                                                                          "no JSON object",
		`["secret"]`:                                                                 "no JSON object",
		`{"key":"k","value":"secret"}`:                                               "no namespace",
		`{"namespace":"n","value":"secret"}`:                                         "no key",
		`{"namespace":"n","key":"k"}`:                                                "value",
		`{"namespace":"n","key":1,"value":"s"}`:                                      "its key has another type",
		`{"namespace":"n","key":"k","value":1}`:                                      "value",
		`{"namespace":"n","key":"k","value":"\ud800secret"}`:                         "value",
		`{"namespace":"n","key":"a/b","value":"secret"}`:                             "Invalid key",
		`{"namespace":"a b","key":"k","value":"secret"}`:                             "Invalid namespace",
		`{"namespace":"n","key":"k","value":"secret","updated_at":"x"}`:              "its updated_at has another type",
		`{"namespace":"n","key":"k","value":"secret","updated_at":-1}`:               "no time",
		`{"namespace":"n","key":"k","value":"` + strings.Repeat("x", 100_001) + `"}`: "Value too large",
		`{"namespace":"n","key":"k","value":"secret","updated_at":` + strings.Repeat("9", 400) + "}": "updated_at",
	} {
		w, _ := s.imports("", good+"\n"+line+"\n"+good)
		wantDetail(t, w, http.StatusBadRequest, "line 3 cannot be imported, and nothing of the request is", want)
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("a value is in %s", w.Body)
		}
	}
	if seq := s.journal.Stats().LastSeq; seq != 0 {
		t.Errorf("%d writes were made", seq)
	}
}

// The pending writes of imports are bounded. An import that waits says for what. The remaining lines, sent
// again, go on where it stopped.
func TestImportWaitsForUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		var lines []string
		for i := range pendingImportsMost + 200 {
			lines = append(lines, importLine(fmt.Sprintf("k%d", i), "v", 1))
		}
		began := time.Now()
		w, doc := s.imports("?namespace=locked", strings.Join(lines, ""))
		wantStatus(t, w, http.StatusServiceUnavailable)
		wantHeader(t, w, "Retry-After", "1")
		if took := time.Since(began); took != importTime {
			t.Errorf("it waited for %s", took)
		}
		if doc.Lines != pendingImportsMost || doc.Written != pendingImportsMost || !strings.Contains(doc.Detail, "paused: HTTP 401, until 2033-05-18T03:33:20Z") {
			t.Fatalf("%+v", doc)
		}
		s.put(id("locked", "agent"), "v") // other writes do not wait
		rest := strings.Join(lines[doc.Lines:], "")
		answer := make(chan *httptest.ResponseRecorder, 1)
		go func() {
			w, _ := s.imports("?namespace=locked", rest)
			answer <- w
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), importTime/2) // it gives up before the first one ends
		defer cancel()
		busy := httptest.NewRecorder()
		s.serve(s.server, busy, httptest.NewRequestWithContext(ctx, http.MethodPost, "/_botwired/import", strings.NewReader(importLine("k", "v", 1))))
		wantStatus(t, busy, http.StatusServiceUnavailable) // two imports take turns
		var busyDoc api.Imported
		decode(t, busy, &busyDoc)
		if !strings.Contains(busyDoc.Detail, "another import is under way") || busyDoc.Lines != 0 {
			t.Errorf("%+v", busyDoc)
		}
		wantStatus(t, <-answer, http.StatusServiceUnavailable)
		wantStatus(t, s.do(http.MethodPost, "/_botwired/flush", ""), http.StatusOK)
		s.wantImported("?namespace=locked", rest, api.Imported{Lines: 200, Written: 200})
		s.wantImported("?namespace=locked", strings.Join(lines[:10], ""), api.Imported{Lines: 10, Same: 10})
		synctest.Wait()
	})
}

// A full journal makes an import wait, and keeps nothing of a line that it has no room for.
func TestImportIntoAFullJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(j *journal.Options, _ *proxy.Options) { j.MaxBytes = 5000 })
		lines := importLine("a", strings.Repeat("x", 3000), 1) + importLine("b", strings.Repeat("x", 3000), 1)
		w, doc := s.imports("", lines)
		wantStatus(t, w, http.StatusInsufficientStorage)
		if doc.Lines != 1 || doc.Written != 1 || !strings.Contains(doc.Detail, "journal full") {
			t.Fatalf("%+v", doc)
		}
		answer := make(chan *httptest.ResponseRecorder, 1)
		go func() { answer <- s.do(http.MethodPost, "/_botwired/import", lines) }()
		time.Sleep(3 * time.Second)
		s.settle(id("n", "a"))
		w = <-answer
		wantStatus(t, w, http.StatusOK)
		if decode(t, w, &doc); doc.Same != 1 || doc.Written != 1 {
			t.Errorf("%s", w.Body)
		}
	})
}

// A crash during an import loses nothing that was answered, and the same file, imported again, does only what
// is left.
func TestImportAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		first := newSidecar(t, func(stored *journal.Options, _ *proxy.Options) { stored.FS = fs })
		var lines []string
		for i := range 20 {
			lines = append(lines, importLine(fmt.Sprintf("k%02d", i), "v", 1))
		}
		first.wantImported("", strings.Join(lines[:8], ""), api.Imported{Lines: 8, Written: 8})
		first.settle(id("n", "k03"))
		first.put(id("n", "k04"), "an agent's")
		s := first.crash(fs)
		s.wantImported("", strings.Join(lines, ""), api.Imported{Lines: 20, Written: 12, Same: 7, Older: 1})
		wantValue(t, s.get("/memory/n/k04"), "an agent's")
		if n := s.journal.Stats().Pending; n != 19 {
			t.Errorf("%d are pending", n)
		}
		synctest.Wait()
	})
}

// contract 5: an agent's write during an import's decision stays.
func TestImportBesideAgents(t *testing.T) {
	s := newSidecar(t)
	const keys = 300
	var lines strings.Builder
	for i := range keys {
		lines.WriteString(importLine(fmt.Sprintf("k%d", i), "file", 1))
	}
	var agent sync.WaitGroup
	agent.Go(func() {
		for i := range keys {
			if w := s.do(http.MethodPut, fmt.Sprintf("/memory/n/k%d", i), putBody("agent")); w.Code != http.StatusOK {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		}
	})
	w, doc := s.imports("", lines.String())
	agent.Wait()
	if w.Code != http.StatusOK || doc.Written+doc.Older != keys {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	for i := range keys {
		wantValue(t, s.get(fmt.Sprintf("/memory/n/k%d", i)), "agent")
	}
}

// A copy of an entry that upstream does not hold does not keep it out of an import: the copy is of another
// service, from before the directory came to this one.
func TestImportOfWhatIsHereOnly(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		k := id("n", "k")
		if _, err := s.journal.Fill(k, &journal.Observation{Value: "v", CreatedAt: 5, UpdatedAt: 5}, func() bool { return true }); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
		s.wantImported("", importLine("k", "v", 5), api.Imported{Lines: 1, Written: 1})
		wantValue(t, s.get("/memory/n/k"), "v")
	})
}

// An import whose body stalls keeps no other import out.
func TestImportBesideAStalledOne(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		content, body := io.Pipe()
		defer synctest.Wait()
		defer body.Close()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_botwired/import", content)
		r.ContentLength = -1
		go s.serve(s.server, httptest.NewRecorder(), r)
		if _, err := io.WriteString(body, importLine("stalled", "v", 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.wantImported("", importLine("k", "v", 1), api.Imported{Lines: 1, Written: 1})
	})
}

// What a sealed namespace does not take is no entry to import: its line is named, and nothing of the request is done.
func TestImportIntoASealedNamespace(t *testing.T) {
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.Check = func(id journal.ID, value string) *wire.Refusal {
			if id.Namespace == "sealed" && value == "large" {
				return wire.Detail(http.StatusRequestEntityTooLarge, "the value is too large for a sealed namespace")
			}
			return nil
		}
	})
	lines := importLine("a", "v", 5) + importLine("b", "large", 5)
	wantDetail(t, s.do(http.MethodPost, "/_botwired/import?namespace=sealed", lines), http.StatusBadRequest,
		"line 2 cannot be imported, and nothing of the request is: the value is too large for a sealed namespace")
	wantStatus(t, s.get("/memory/sealed/a"), http.StatusNotFound)
	s.wantImported("", lines, api.Imported{Lines: 2, Written: 2})
}
