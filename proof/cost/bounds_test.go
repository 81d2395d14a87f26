package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// thePage has the bounds that the CI goes by.
const thePage = "../../docs/performance.md"

func readPage(t *testing.T) bounds {
	t.Helper()
	b, err := readBounds(thePage)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The page has a row for each kind of requests, and no others.
func TestThePageHasEachKind(t *testing.T) {
	b := readPage(t)
	for _, k := range kinds() {
		if _, ok := b[k]; !ok {
			t.Errorf("the page has no bounds for %s", k)
		}
	}
	if len(b) != len(kinds()) {
		t.Errorf("the page has %d rows, and there are %d kinds", len(b), len(kinds()))
	}
}

// A request that costs as much as it may passes; a bit more of anything, in any row, does not.
func TestEachBoundCanFail(t *testing.T) {
	for k, bound := range readPage(t) {
		if wrong := bounds.exceeded(readPage(t), k, bound); wrong != nil {
			t.Errorf("at the bounds: %v", wrong)
		}
		for i := range bound {
			spoilt := bound
			spoilt[i] += described[i].step / 10
			wrong := readPage(t).exceeded(k, spoilt)
			if len(wrong) != 1 || !strings.Contains(wrong[0], strings.Trim(described[i].title, "`")) {
				t.Errorf("%s with more of %q: %v", k, described[i].title, wrong)
			}
		}
	}
	if wrong := readPage(t).exceeded(kind{"PATCH", 1}, counts{}); len(wrong) != 1 {
		t.Errorf("a kind without bounds: %v", wrong)
	}
}

// No update of the bounds gives up what the design promises: a read fsyncs nothing, and is one system call in and
// one out; a write alone fsyncs once, and many share an fsync.
func TestBoundsKeepTheDesign(t *testing.T) {
	for k, bound := range readPage(t) {
		limit := counts{reads: 1.5, writes: 2.5, fsyncs: 1.5}
		if strings.HasPrefix(k.request, "GET") || strings.HasPrefix(k.request, "LIST") {
			limit = counts{reads: 1.5, writes: 1.5, fsyncs: 0.1}
		} else if k.connections > 1 {
			limit = counts{reads: 1.5, writes: 1.7, fsyncs: sharedSyncs}
		}
		for _, i := range []int{reads, writes, fsyncs} {
			if bound[i] > limit[i] {
				t.Errorf("%s: the bound of %s is %s, and %s is the most", k, described[i].title, show(i, bound[i]), show(i, limit[i]))
			}
		}
	}
}

// The bounds that follow from what a request costs let just that pass: not another system call, nor, at 64
// connections, an fsync for more than every second write.
func TestBoundsAreClose(t *testing.T) {
	hit, put := kind{"GET hit", 1}, kind{"PUT", 64}
	costs := map[kind]counts{
		hit: {objects: 0, space: 3, reads: 1, readsInVain: 0.2, writes: 1, waits: 1.5, futexes: 0.1},
		put: {objects: 11.4, space: 1800, reads: 1.01, writes: 1.1, fsyncs: 0.12, waits: 0.1, futexes: 0.5, others: 0.02},
	}
	b := bounds{hit: boundOf(costs[hit]), put: boundOf(costs[put])}
	for k, c := range costs {
		if wrong := b.exceeded(k, c); wrong != nil {
			t.Errorf("as measured: %v", wrong)
		}
		for i, more := range (counts{objects: 2, space: 250 + 2*tableMemory, reads: 0.2, writes: 0.2, fsyncs: 0.1, others: 0.2}) {
			if k == put && (i == writes || i == fsyncs) {
				more += sharedSyncs - c[fsyncs]
			}
			c := c
			if c[i] += more; more > 0 && b.exceeded(k, c) == nil {
				t.Errorf("%s: %v more of %q passes", k, more, described[i].title)
			}
		}
	}
}

func TestTheTableIsReadAsItIsWritten(t *testing.T) {
	want := make(bounds)
	for n, k := range kinds() {
		var c counts
		for i := range c {
			c[i] = float64(n) * 1.7
		}
		want[k] = boundOf(c)
	}
	name := filepath.Join(t.TempDir(), "page.md")
	const before, after = "# A page\n\n<!-- cost -->\n", "<!-- /cost -->\n\nthat goes on"
	if err := os.WriteFile(name, []byte(before+"| old |\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeBounds(name, kinds(), want); err != nil {
		t.Fatal(err)
	}
	got, err := readBounds(name)
	if err != nil {
		t.Fatal(err)
	}
	for k, c := range want {
		for i := range c {
			if show(i, c[i]) != show(i, got[k][i]) {
				t.Errorf("%s: %s is read as %s", k, show(i, c[i]), show(i, got[k][i]))
			}
		}
	}
	page, err := os.ReadFile(name)
	if text := string(page); err != nil || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
		t.Errorf("the rest of the page: %q (%v)", page, err)
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(titles(got))), slices.Sorted(maps.Keys(titles(want)))); d != "" {
		t.Error(d)
	}
}

// One run in ten may be disturbed.
func TestWorst(t *testing.T) {
	var runs []counts
	for n := range 10 {
		runs = append(runs, counts{objects: float64(n), fsyncs: 9 - float64(n)})
	}
	if got := worst(runs); got[objects] != 8 || got[fsyncs] != 8 {
		t.Errorf("of ten runs: %v", got)
	}
	if got := worst(runs[:2]); got[objects] != 1 || got[fsyncs] != 9 {
		t.Errorf("of two: %v", got)
	}
	if got := least(runs[0], runs[9]); got[objects] != 0 || got[fsyncs] != 0 {
		t.Errorf("of a second try: %v", got)
	}
}

// titles are the names of kinds.
func titles(b bounds) map[string]bool {
	names := make(map[string]bool)
	for k := range b {
		names[k.String()] = true
	}
	return names
}

func TestAPageWithoutATable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	for _, page := range []string{"", "<!-- cost -->\n| a |\n|---|\n| b |\n<!-- /cost -->\n"} {
		if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := readBounds(name); err == nil {
			t.Errorf("%q has the bounds %v", page, b)
		}
	}
}

// A count that nobody has taken is no reason to fail, and shows as none.
func TestUncounted(t *testing.T) {
	k := kind{"GET", 1}
	measured := counts{objects: 2, space: 9}
	for i := reads; i < columns; i++ {
		measured[i] = uncounted
	}
	if wrong := (bounds{k: {objects: 1, space: 9}}).exceeded(k, measured); len(wrong) != 1 || !strings.Contains(wrong[0], "objects") {
		t.Errorf("%q", wrong)
	}
	if text := table([]kind{k}, bounds{k: measured}); !strings.Contains(text, "| GET | 1 | 2.0 | 9 | – | – | – | – | – | – | – |") {
		t.Errorf("the table is\n%s", text)
	}
}
