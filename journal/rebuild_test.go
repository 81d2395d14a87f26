package journal_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// While the index is rebuilt all calls give right answers, and afterwards it is what a
// model says.
func TestRebuildWhileServing(t *testing.T) {
	const entries, spaces = 6000, 3
	fs := vfs.NewCrashableMem()
	id := func(i int) journal.ID {
		return journal.ID{Namespace: fmt.Sprint("ns", i%spaces), Key: fmt.Sprint(i)}
	}
	j := open(t, fs)
	together(16, func(g int) {
		for i := g; i < entries; i += 16 {
			for k := range 1 + i%3 { // some leave superseded records behind
				put(t, j, id(i), fmt.Sprint(i, "/", k))
			}
		}
	})
	old := func(i int) string { return fmt.Sprint(i, "/", i%3) }

	j = reopen(t, crash(fs))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := g; i < entries; i += 4 * 5 {
				if state, err := j.Lookup(id(i)); err != nil || state.Value != old(i) {
					t.Errorf("%s is %+v, %v", id(i), state, err)
				}
				act(t, j, id(i), i)
			}
		})
	}
	wg.Go(func() {
		for n := range 5 {
			ns := fmt.Sprint("ns", n%spaces)
			overlay, err := overlayOf(j, ns)
			if err != nil || len(overlay) < entries/spaces*8/10 {
				t.Errorf("%d pending in %s, %v", len(overlay), ns, err)
			}
			_, _ = j.PendingList("", 100), j.Stats()
		}
	})
	wg.Go(func() { no(t, j.Run(t.Context())) })
	wg.Wait()
	check(t, j)

	compare(t, j, entries, id, old)
}

// act does one of several things to an entry, by its number.
func act(t *testing.T, j *journal.Journal, id journal.ID, i int) {
	switch i % 4 {
	case 0:
		put(t, j, id, "new")
	case 1:
		settle(t, j, id)
	case 2:
		remove(t, j, id)
	}
}

func compare(t *testing.T, j *journal.Journal, entries int, id func(int) journal.ID, old func(int) string) {
	t.Helper()
	pending, oldest := 0, 0.0
	for i := range entries {
		kind, value := journal.Value, old(i)
		if g := i % 20; g < 4 {
			switch i % 4 {
			case 0:
				value = "new"
			case 1:
				kind = journal.Settled
			case 2:
				kind, value = journal.Gone, ""
			}
		}
		expect(t, j, id(i), kind, value)
		if kind != journal.Settled {
			pending++
		}
	}
	list := j.PendingList("", entries)
	for i, p := range list {
		if i > 0 && p.Since < list[i-1].Since {
			t.Fatalf("%v before %v", list[i-1], p)
		}
	}
	oldest = list[0].Since
	if st := j.Stats(); st.Pending != pending || len(list) != pending || st.OldestSince != oldest || st.Rebuilding {
		t.Errorf("%d are listed, want %d; stats are %+v", len(list), pending, st)
	}
}

// An entry that is written and settled before the rebuild is looked up first, so that
// its older records are known to be old.
func TestWorkBeforeTheRebuild(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a, b := key("a"), key("b")
	put(t, j, a, "old")
	w := put(t, j, b, "1")
	j = reopen(t, crash(fs))
	put(t, j, a, "new")
	no(t, j.Settle(w))
	check(t, j)
	no(t, j.Run(t.Context()))
	check(t, j)
	expect(t, j, a, journal.Value, "new")
	expect(t, j, b, journal.Settled, "1")
	settle(t, j, a)
	put(t, j, b, "2")
	check(t, j)
	if st := j.Stats(); st.Pending != 1 {
		t.Errorf("stats are %+v", st)
	}
}
