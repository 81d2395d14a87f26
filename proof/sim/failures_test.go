package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

var writeFailures = flag.Bool("sim.failures", false, "write testdata/failures.md")

// effects is what a failure of upstream's means to those who use the daemon.
type effects struct {
	unknown string // a read of something unknown
	next    string // further ones
	known   string // a read with an old copy
	write   string // a PUT, at once and later
	status  string
	metric  string
	log     string
}

// TestUpstreamsFailures plays every way in which upstream can fail, and compares what comes of it with
// testdata/failures.md, which make failures writes, and with the rows of docs/troubleshooting.md: there, each kind of
// failure has what an agent sees of any of them.
func TestUpstreamsFailures(t *testing.T) {
	var table strings.Builder
	kinds := make(map[string][3][]string)
	for _, f := range failures {
		var e effects
		synctest.Test(t, func(t *testing.T) { e = f.play(t) })
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			f.name, e.unknown, e.next, e.known, e.write, e.status, e.metric, e.log)
		// The page says these once, of all failures.
		if strings.Contains(e.next, "after") || e.known != "200 at once" || !strings.HasPrefix(e.write, "200; ") {
			t.Errorf("%s: %+v", f.name, e)
		}
		kind := kinds[f.kind]
		for i, shown := range []string{e.answer(), e.outcome(), strings.SplitN(e.status, ":", 2)[0]} {
			if !slices.Contains(kind[i], shown) {
				kind[i] = append(kind[i], shown)
			}
		}
		kinds[f.kind] = kind
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	for kind, shown := range kinds {
		row := "| " + kind + " |"
		for _, cell := range shown {
			slices.Sort(cell)
			row += " " + strings.Join(cell, " or ") + " |"
		}
		if !strings.Contains(string(page), "\n"+row+" ") {
			t.Errorf("docs/troubleshooting.md has no row %s", row)
		}
	}
	const golden = "testdata/failures.md"
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	const head = "|---|---|---|---|---|---|---|---|\n"
	before, rest, begins := strings.Cut(string(text), head)
	if !begins {
		t.Fatalf("%s has no table", golden)
	}
	if *writeFailures {
		if err := os.WriteFile(golden, []byte(before+head+table.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(rest, "\n"), strings.Split(table.String(), "\n")); diff != "" {
		t.Errorf("%s is not what happens (-page +now); make failures writes it:\n%s", golden, diff)
	}
}

// answer is the answer to a read of something unknown, in the page's words.
func (e *effects) answer() string {
	if strings.HasSuffix(e.unknown, "passed on") {
		return "upstream's answer"
	}
	return strings.ReplaceAll(e.unknown, "5s", "5 s")
}

// outcome is what has become of a write, in the page's words.
func (e *effects) outcome() string {
	outcome, _, _ := strings.Cut(strings.TrimPrefix(e.write, "200; "), ":")
	return outcome
}

// play lets a daemon that holds an old copy of one entry meet the failure.
func (f failure) play(t *testing.T) (e effects) {
	w := &world{fs: vfs.NewCrashableMem(), up: newService()}
	w.free.Store(roomy)
	begin := func(scheme string) {
		with := usual
		with.scheme = scheme
		var err error
		if w.node, err = open(disk{w.fs, &w.free}, w.up, with); err != nil {
			t.Fatal(err)
		}
		w.node.start()
	}
	begin("http")
	w.up.entries[journal.ID{Namespace: "n", Key: "known"}] = stored{value: "v", created: 1, updated: 1}
	w.wantWithin(t, soon, http.StatusOK, http.MethodGet, "/memory/n/known")
	if err := w.node.end(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)

	w.up.dialing, w.up.answering = f.dial, f.answer
	begin(f.scheme)
	from := w.logged()
	e.unknown = w.read("/memory/n/a")
	for _, key := range []string{"b", "c", "d"} {
		e.next = w.read("/memory/n/" + key)
	}
	e.known = w.read("/memory/n/known")
	put := w.node.do(http.MethodPut, "/memory/n/w", `{"value":"v"}`)
	time.Sleep(15 * time.Second)
	e.write = fmt.Sprintf("%d; %s", put.Code, w.became())
	e.status, e.metric = w.status(), w.metric()
	e.log = w.logLines(from)
	w.up.mu.Lock()
	w.up.dialing, w.up.answering = nil, nil
	w.up.mu.Unlock()
	if err := w.close(); err != nil {
		t.Error(err)
	}
	time.Sleep(2 * time.Minute) // for upstream's side of the connections
	return e
}

// read describes the answer to a GET.
func (w *world) read(path string) string {
	began := time.Now()
	r := w.node.do(http.MethodGet, path, "")
	when := "at once"
	if took := time.Since(began); took > soon {
		when = "after " + took.Round(time.Second).String()
	}
	switch {
	case r.Code == http.StatusOK:
		return "200 " + when
	case strings.Contains(r.Body.String(), "not known here"):
		return fmt.Sprintf("%d %s", r.Code, when)
	}
	return fmt.Sprintf("%d %s, passed on", r.Code, when)
}

// became says what has become of the write.
func (w *world) became() string {
	var pending struct {
		Pending []struct {
			LastError string `json:"last_error"`
		}
	}
	var dead struct {
		DeadLetters []struct{ Error string } `json:"dead_letters"`
	}
	w.surface("pending", &pending)
	w.surface("dead-letters", &dead)
	switch {
	case w.node.journal.Stats().Conflicts > 0:
		return "lost"
	case len(dead.DeadLetters) > 0:
		return "a dead letter: " + dead.DeadLetters[0].Error
	case len(pending.Pending) == 0:
		return "settled"
	case pending.Pending[0].LastError == "":
		return "pending"
	}
	return "pending: " + pending.Pending[0].LastError
}

func (w *world) status() string {
	var doc struct {
		Upstream struct{ State, Reason string }
	}
	w.surface("status", &doc)
	return strings.TrimSuffix(doc.Upstream.State+": "+doc.Upstream.Reason, ": ")
}

func (w *world) surface(path string, doc any) {
	if err := json.Unmarshal(w.node.do(http.MethodGet, "/_botwired/"+path, "").Body.Bytes(), doc); err != nil {
		panic(err)
	}
}

func (w *world) metric() string {
	text := w.node.do(http.MethodGet, "/_botwired/metrics", "").Body.String()
	return regexp.MustCompile(`(?m)^botwired_upstream_up (.)`).FindStringSubmatch(text)[1]
}

var logLine = regexp.MustCompile(`botwired: .*level=(WARN|ERROR) msg="?([^":=]*)`)

// logLines are the daemon's warnings and errors since a line of the log, the first words of
// each.
func (w *world) logLines(from int) string {
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	var lines []string
	for _, line := range w.up.log[from:] {
		if m := logLine.FindStringSubmatch(line); m != nil {
			lines = append(lines, m[2])
		}
	}
	if len(lines) == 0 {
		return "nothing"
	}
	if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "|") }) {
		panic("a line of the log does not fit into the table")
	}
	return strings.Join(lines, "; then: ")
}
