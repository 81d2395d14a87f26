package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli"
)

const (
	importedA   = `{"namespace":"a","key":"k","value":"v","updated_at":2.5}` + "\n"
	importedB   = `{"namespace":"a","key":"l","value":"\u0000"}` + "\n"
	importedEnd = `{"end":{"namespace":"a","entries":2,"complete":true}}` + "\n"
)

// importFrom runs an import of a text on standard input.
func importFrom(t *testing.T, d *daemon, text string, args ...string) outcome {
	t.Helper()
	return at(t, d, func(p *cli.Program) { p.Stdin = strings.NewReader(text) }, append([]string{"import"}, args...)...)
}

func TestImport(t *testing.T) {
	const all = importedA + importedB + importedEnd
	done := answer{200, `{"lines":3,"written":1,"same":1,"older":0}`}
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/import": done, "POST /_botwired/import?namespace=b": done,
	})
	wantOutput(t, importFrom(t, d, all, "-"), "1 written, 1 there already, 0 left out: what is there is not older\n")
	wantOutput(t, importFrom(t, d, all, "--namespace", "b", "--json"), `{"written":1,"same":1,"older":0}`+"\n")
	file := filepath.Join(t.TempDir(), "file.jsonl")
	if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, at(t, d, nil, "import", "--json", file), `{"written":1,"same":1,"older":0}`+"\n")
	for _, a := range d.asked {
		if a.Body != all {
			t.Errorf("%s was sent %q", a.Target, a.Body)
		}
	}
	empty := `{"end":{"namespace":"a","entries":0,"complete":true}}` + "\n"
	wantOutput(t, importFrom(t, newDaemon(t, map[string]answer{"POST /_botwired/import": {200, `{"lines":1}`}}), empty), "0 written, 0 there already, 0 left out: what is there is not older\n")
	lacking := importFrom(t, d, importedA+importedB+`{"end":{"namespace":"a","entries":2,"complete":false,"why":"upstream was down"}}`)
	if lacking.code != 0 || lacking.stderr != "standard input may not be all there was when it was exported: a: upstream was down\n" {
		t.Errorf("%+v", lacking)
	}
}

// Nothing is imported from a file that is cut off or has an invalid line.
func TestImportOfAFileThatIsNotWhole(t *testing.T) {
	d := newDaemon(t, nil)
	for text, want := range map[string]string{
		"":                         "it is empty",
		importedA:                  "cut off after line 1",
		importedA + importedB:      "cut off after line 2",
		importedA + importedB[:20]: "line 2: it is no JSON object",
		importedA + importedEnd:    "line 2 ends 2 entries, and there are 1 before it",
		importedA + importedB + importedEnd + importedA:   "cut off after line 4",
		importedA + "\n" + `{"namespace":"a","key":"k"}`:  "line 3: its value",
		strings.Repeat("x", api.MaxLine+1):                "line 1 is longer than any entry",
		importedA + importedB + importedEnd + "<html>\n ": "line 4: it is no JSON object",
	} {
		wantFailure(t, importFrom(t, d, text), cli.ExitError, "standard input: ", want, "nothing was imported")
	}
	wantFailure(t, at(t, d, nil, "import", filepath.Join(t.TempDir(), "none")), cli.ExitError, "none: no such file")
	wantFailure(t, importFrom(t, d, importedA, "--namespace", "a b"), cli.ExitError, "Invalid namespace")
	wantFailure(t, importFrom(t, d, importedA, "--namespace", ""), cli.ExitUsage, "expected a namespace")
	if len(d.asked) > 0 {
		t.Errorf("the daemon was asked %+v", d.asked)
	}
	taking := newDaemon(t, map[string]answer{"POST /_botwired/import": {200, `{"lines":1,"written":1}`}})
	if got := importFrom(t, taking, importedA, "--partial"); got.code != 0 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	wantFailure(t, importFrom(t, d, importedB[:20]+"\n"+importedA, "--partial"), cli.ExitError, "line 1: it is no JSON object", "nothing was imported")
}

// A partial import takes the complete lines of a file that is cut in the middle of a line.
func TestImportOfAFileThatIsCutInALine(t *testing.T) {
	d := newDaemon(t, map[string]answer{"POST /_botwired/import": {200, `{"lines":1,"written":1}`}})
	got := importFrom(t, d, importedA+importedB[:20], "--partial")
	if got.code != cli.ExitOK || got.stderr != "standard input is cut off in the middle of line 2: botwired imports the lines before it\n" ||
		got.stdout != "1 written, 0 there already, 0 left out: what is there is not older\n" {
		t.Errorf("%+v", got)
	}
	if len(d.asked) != 1 || d.asked[0].Body != importedA {
		t.Errorf("the daemon was sent %+v", d.asked)
	}
}

// Without a terminal, an import says once that it waits, and for what.
func TestImportSaysThatItWaits(t *testing.T) {
	tick := make(chan time.Time)
	close(tick) // so no wait takes long
	const why = "the import waits: upstream is down"
	d := &slowDaemon{steps: []string{`503 {"lines":0,"detail":"` + why + `"}`, `503 {"lines":1,"written":1,"detail":"` + why + `"}`, `200 {"lines":2,"written":1}`}}
	server := httptest.NewServer(ofThisAccount(t, d))
	defer server.Close()
	got := at(t, &daemon{address: server.Listener.Addr().String()}, func(p *cli.Program) {
		p.Stdin = strings.NewReader(importedA + importedB + importedEnd)
		p.Ticks = func() (<-chan time.Time, func()) { return tick, func() {} }
	}, "import")
	if got.code != cli.ExitOK || got.stderr != why+"\n" {
		t.Errorf("%+v", got)
	}
}

func linesIn(text []byte) int {
	return len(slices.Collect(bytes.Lines(text)))
}

// A regular file is read twice and never held in memory. Other input can be read only once, and is held.
func TestImportHoldsNoFileInMemory(t *testing.T) {
	const entries = 1500
	file := filepath.Join(t.TempDir(), "file.jsonl")
	line := `{"namespace":"a","key":"k","value":"` + strings.Repeat("v", 50_000) + `"}` + "\n"
	end := fmt.Sprintf(`{"end":{"namespace":"a","entries":%d,"complete":true}}`, entries)
	no(t, os.WriteFile(file, []byte(strings.Repeat(line, entries)+end), 0o600))
	inUse := func() int {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		return int(now.HeapAlloc >> 20)
	}
	lines, most, before := 0, 0, inUse()
	server := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n := strings.Count(string(body), line)
		lines += n
		most = max(most, inUse()-before)
		fmt.Fprintf(w, `{"lines":%d,"written":%d}`, linesIn(body), n)
	})))
	defer server.Close()
	got := at(t, &daemon{address: server.Listener.Addr().String()}, nil, "import", file)
	if got.code != cli.ExitOK || lines != entries || most > 30 {
		t.Errorf("%+v: the daemon got %d of %d lines, with %d MiB in use", got, lines, entries, most)
	}
}

// A file that changes during the import is reported, not taken as complete.
func TestImportOfAFileThatChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.jsonl")
	many := strings.Repeat(importedA, 200)
	// The last entry lies beyond the part that is read ahead.
	padding := strings.Repeat(strings.Repeat(" ", 1000)+"\n", 2*api.MaxLine/1000)
	no(t, os.WriteFile(file, []byte(many+padding+importedA), 0o600))
	server := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := os.Truncate(file, int64(len(many))); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, `{"lines":%d,"same":%d}`, linesIn(body), strings.Count(string(body), "key"))
	})))
	defer server.Close()
	wantFailure(t, at(t, &daemon{address: server.Listener.Addr().String()}, nil, "import", "--partial", file), cli.ExitError, "changed")
}

// slowDaemon takes as many lines at a time as the test says, and then fails as it says.
type slowDaemon struct {
	steps []string // the answers in turn: status and document
	sent  []string
}

func (d *slowDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := new(strings.Builder)
	_ = r.Write(body) // a builder never fails
	_, lines, _ := strings.Cut(body.String(), "\r\n\r\n")
	d.sent = append(d.sent, lines)
	if len(d.steps) == 0 {
		panic(http.ErrAbortHandler)
	}
	var status int
	document, _, _ := strings.Cut(d.steps[0], "\n")
	fmt.Sscan(document, &status)
	w.WriteHeader(status)
	fmt.Fprint(w, strings.TrimLeft(document, "0123456789 "))
	d.steps = d.steps[1:]
}

// While the daemon waits for room or for upstream, an import retries the remaining lines. When it
// stops, it says how much is done.
func TestImportThatWaits(t *testing.T) {
	tick := make(chan time.Time)
	close(tick) // so no wait takes long
	const all = importedA + importedB + importedEnd
	for name, c := range map[string]struct {
		steps []string
		sent  []string
		code  int
		text  string
	}{
		"room comes": {
			[]string{`507 {"lines":0,"detail":"journal full"}`, `503 {"lines":1,"written":1,"detail":"throttled"}`, `200 {"lines":2,"same":1}`},
			[]string{all, all, importedB + importedEnd}, 0, "",
		},
		"a full namespace": {
			[]string{`413 {"lines":1,"written":1,"detail":"the namespace is full"}`}, []string{all}, cli.ExitError,
			"the import has stopped after 1 of 2 entries, and the same command does the rest: line 2: the namespace is full",
		},
		"the daemon dies": {
			[]string{`503 {"lines":1,"written":1,"detail":"throttled"}`}, []string{all, importedB + importedEnd}, cli.ExitError,
			"the import has stopped after 1 of 2 entries, and the same command does the rest: cannot reach botwired",
		},
		"not ready": {
			[]string{`503 {"detail":"not ready"}`, `200 {"lines":3,"written":2}`}, []string{all, all}, 0, "",
		},
		"another program": {[]string{`200 {"lines":0,"written":1}`}, []string{all}, cli.ExitError, "another program than botwired"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &slowDaemon{steps: c.steps}
			server := httptest.NewServer(ofThisAccount(t, d))
			t.Cleanup(server.Close)
			got := at(t, &daemon{address: server.Listener.Addr().String()}, func(p *cli.Program) {
				p.Stdin = strings.NewReader(all)
				p.Ticks = func() (<-chan time.Time, func()) { return tick, func() {} }
			}, "import")
			server.Close() // its last handler has ended
			if got.code != c.code || !strings.Contains(got.stderr, c.text) {
				t.Errorf("exit %d: %q", got.code, got.stderr)
			}
			if diff := cmp.Diff(c.sent, d.sent); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

// A long file is sent in parts. An error names the line's number in the file.
func TestImportOfALongFile(t *testing.T) {
	const n = 200 + 50
	d := &slowDaemon{steps: []string{
		fmt.Sprintf(`200 {"lines":%d,"written":%[1]d}`, 200), `413 {"lines":7,"written":7,"detail":"the namespace is full"}`,
	}}
	server := httptest.NewServer(ofThisAccount(t, d))
	defer server.Close()
	text := strings.Repeat(importedA, n) + fmt.Sprintf(`{"end":{"namespace":"a","entries":%d,"complete":true}}`, n)
	got := importFrom(t, &daemon{address: server.Listener.Addr().String()}, text)
	server.Close() // its last handler has ended
	wantFailure(t, got, cli.ExitError, fmt.Sprintf("after %d of %d entries", 200+7, n), fmt.Sprintf("line %d: the namespace is full", 200+8))
	if len(d.sent) != 2 || strings.Count(d.sent[0], "\n") != 200 {
		t.Errorf("%d parts were sent", len(d.sent))
	}
}
