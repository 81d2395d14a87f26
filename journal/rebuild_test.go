package journal_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// During the rebuild of the index all calls answer correctly, and afterwards the index matches a model.
func TestRebuildWhileServing(t *testing.T) {
	const entries, spaces = 6000 / min(fewer, 3), 3
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

// act does one of several things to an entry, chosen by its number.
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

// An entry that is written and settled before the rebuild is looked up first, so that its older records
// are known to be old.
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

// slowReads is a disk on which one chosen read of a table waits.
type slowReads struct {
	vfs.FS
	countdown atomic.Int64 // number of reads before the one that waits
	reached   chan struct{}
	goOn      chan struct{}
}

func newSlowReads(fs vfs.FS) *slowReads {
	s := &slowReads{reached: make(chan struct{}), goOn: make(chan struct{})}
	s.FS = errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") && s.countdown.Add(-1) == 0 {
			close(s.reached)
			<-s.goOn
		}
		return nil
	}))
	return s
}

// An entry that another caller looks up and settles, while its record is being read into the index,
// does not become pending again.
func TestEntrySettlesWhileItIsReadFromTheStore(t *testing.T) {
	for name, read := range map[string]func(*journal.Journal) error{
		"rebuild":   func(j *journal.Journal) error { return j.Rebuild(t.Context()) },
		"namespace": func(j *journal.Journal) error { return j.VisitPending("ns", func(journal.Pending) {}) },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			j := open(t, mem)
			a := key("0") // in the first block of many
			put(t, j, a, "value")
			for i := range 3000 {
				put(t, j, key("%04d%s", i, strings.ReplaceAll(noise(100), "/", "")), "value")
			}
			w, _, err := j.Newest(a)
			no(t, err)
			no(t, j.FlushTables())
			no(t, j.Close())

			disk := newSlowReads(mem)
			j = reopen(t, disk)
			no(t, second(j.Lookup(key("of the tables, the parts that are always read")))) // the filter and the index
			disk.countdown.Store(8)
			ended := make(chan error)
			go func() { ended <- read(j) }()
			<-disk.reached
			expect(t, j, a, journal.Value, w.Value)
			no(t, j.Settle(w))
			close(disk.goOn)
			no(t, <-ended)
			expect(t, j, a, journal.Settled, w.Value)
			no(t, j.Run(t.Context()))
			if n := j.Stats().Pending; n != 3000 {
				t.Errorf("%d are pending", n)
			}
			check(t, j)
		})
	}
}

// A superseded record is removed from the disk.
func TestSupersededRecordsAreRemoved(t *testing.T) {
	j := open(t, vfs.NewMem())
	for range 100 {
		put(t, j, key("a"), "1")
	}
	if n, err := j.PendingRecords(); err != nil || n > 2 {
		t.Errorf("100 writes to one entry have %d records, %v", n, err)
	}
	check(t, j)
}

// After a write has settled, no restart brings an older write to its entry back, even if many superseded
// records await their removal.
func TestNoOlderWriteComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		end := disk.stall()
		begin := func(id journal.ID, value string) {
			done, _ := later(putting(j, id, value))
			done()
		}
		begin(key("first"), "1")
		for i := range 200 {
			begin(key("k%d", i), "old")
		}
		for i := range 200 {
			begin(key("k%d", i), "new"+fmt.Sprint(i))
		}
		end()
		synctest.Wait()
		settle(t, j, key("k199"))
		no(t, j.Close())
		after := open(t, disk.fs)
		expect(t, after, key("k199"), journal.Settled, "new199")
	})
}
