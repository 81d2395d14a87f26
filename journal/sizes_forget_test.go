package journal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// A write that upstream holds, but that the journal had no room for, makes its entry unknown here. The
// entry still counts, and counts once when it is seen again.
func TestAnEntryThatIsOvertakenCountsOnce(t *testing.T) {
	sizes, with := limited(1 << 40)
	j := open(t, vfs.NewMem(), with)
	show(t, j, key("copied"), 300)
	list(t, j, true, journal.Row{Key: "copied", ListBytes: 300, UpdatedAt: 1}, journal.Row{Key: "listed", ListBytes: 200, UpdatedAt: 1})
	no(t, j.WriteThrough.Supersede(key("copied"), 0))
	no(t, j.WriteThrough.Supersede(key("listed"), 0))
	sized(t, sizes, 500)
	show(t, j, key("copied"), 300)
	sized(t, sizes, 500)
	no(t, tryPut(j, key("copied"), 310))
	w, _, err := j.Newest(key("copied"))
	no(t, err)
	no(t, j.WriteThrough.Supersede(key("copied"), w.Seq-1)) // there is a newer one
	settle(t, j, key("copied"))
	sized(t, sizes, 810) // the entry is no longer known
	remove(t, j, key("listed"))
	settle(t, j, key("listed"))
	sized(t, sizes, 500) // the entry's size is unknown, so the largest is subtracted
}

// While the disk has no room for copies, entries count by their rows in the listing.
func TestRowsCountWithoutCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reserve = 1 << 20
		d := &disk{FS: vfs.NewMem()}
		d.free.Store(1 << 30)
		sizes, with := limited(1 << 40)
		j := open(t, d, with, func(o *journal.Options) { o.DiskReserve = reserve })
		list(t, j, true)
		no(t, tryPut(j, key("written"), 100))
		d.free.Store(reserve - 1)
		time.Sleep(time.Second)
		settle(t, j, key("written"))
		sized(t, sizes, 100)
		show(t, j, key("shown"), 200)
		sized(t, sizes, 300)
		l, _, err := j.Listing("ns", allRows)
		no(t, err)
		list(t, j, true, l.Rows...)
		sized(t, sizes, 300)
	})
}

// Entries whose copies or listing were removed still count, and count once when upstream shows them
// again. A write to an unknown entry counts as new.
func TestEntriesThatWereRemovedCountOnce(t *testing.T) {
	for name, learn := range map[string]func(t *testing.T, j *journal.Journal){
		"copies": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			for i := range 10 {
				show(t, j, key("e%d", i), 300)
			}
		},
		"a listing": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			var rows []journal.Row
			for i := range 10 {
				rows = append(rows, journal.Row{Key: key("e%d", i).Key, ListBytes: 300, UpdatedAt: 1})
			}
			list(t, j, true, rows...)
		},
		"a listing and copies": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			var rows []journal.Row
			for i := range 10 {
				rows = append(rows, journal.Row{Key: key("e%d", i).Key, ListBytes: 300, UpdatedAt: 1})
				show(t, j, key("e%d", i), 300)
			}
			list(t, j, false, rows[:5]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sizes, with := limited(1 << 40)
			j := open(t, vfs.NewMem(), with)
			learn(t, j)
			no(t, j.Evict(1))
			if kept := lookup(t, j, key("e1")); kept.Kind != journal.Unknown {
				t.Fatalf("nothing was removed: %+v", kept)
			}
			sized(t, sizes, 3000)
			show(t, j, key("e1"), 300)
			sized(t, sizes, 3000)
			no(t, tryPut(j, key("e1"), 300))
			settle(t, j, key("e1"))
			sized(t, sizes, 3000)
			remove(t, j, key("e2"))
			settle(t, j, key("e2"))
			sized(t, sizes, 2700) // it may have been the largest
			show(t, j, key("e3"), 300)
			sized(t, sizes, 2700)
			no(t, tryPut(j, key("e4"), 300))
			settle(t, j, key("e4"))
			sized(t, sizes, 3000)
			check(t, j)
		})
	}
}

// Removing copies for new entries makes no room for more entries: the limit is reached.
func TestNewEntriesReachTheLimitThoughCopiesAreRemoved(t *testing.T) {
	sizes, with := limited(2000)
	j := open(t, vfs.NewMem(), with)
	for i := range 5 {
		show(t, j, key("before%d", i), 100)
	}
	no(t, j.Evict(1))
	for i := range 15 {
		no(t, tryPut(j, key("new%d", i), 100))
		settle(t, j, key("new%d", i))
		no(t, j.Evict(1))
	}
	sized(t, sizes, 2000)
	refusedAsFull(t, tryPut(j, key("more"), 100))
	refusedAsFull(t, tryPut(j, key("before0"), 100)) // this entry is unknown too
	show(t, j, key("before0"), 100)
	no(t, tryPut(j, key("before0"), 100)) // now it is known
	sized(t, sizes, 2000)
}

// Writes to entries whose copies were removed subtract nothing from the count, settled or refused.
func TestWritesToRemovedEntriesTakeNothingOff(t *testing.T) {
	sizes, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	for i := range 10 {
		show(t, j, key("e%d", i), 100)
	}
	no(t, j.Evict(1))
	for i := range 5 {
		if tryPut(j, key("e%d", i), 100) == nil {
			w, _, err := j.Newest(key("e%d", i))
			no(t, err)
			if i%2 == 0 {
				no(t, j.Settle(w))
			} else {
				no(t, j.DeadLetter(w, journal.Failure{Status: 400}))
			}
		}
		sized(t, sizes, 1000)
	}
}

// The bytes subtracted for a pending write come back unchanged, even if the entry's size changes
// meanwhile.
func TestWhatIsTakenOffComesBack(t *testing.T) {
	sizes, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	for _, name := range []string{"a", "b"} {
		show(t, j, key("%s", name), 400)
	}
	for _, name := range []string{"a", "b"} {
		no(t, tryPut(j, key("%s", name), 400)) // if it were new, it would cross the limit
	}
	sized(t, sizes, 800)
	list(t, j, false, journal.Row{Key: "a", ListBytes: 700, UpdatedAt: 2})
	settle(t, j, key("a"))
	sized(t, sizes, 800)
	w, _, err := j.Newest(key("b"))
	no(t, err)
	no(t, tryPut(j, key("b"), 500))
	no(t, j.Settle(w)) // there is a newer one
	no(t, j.MaintainOnce())
	sized(t, sizes, 900)
	settle(t, j, key("b"))
	sized(t, sizes, 900)
}

// A write behind one that settles replaces exactly that one: a hot key in a nearly full namespace can
// still be written.
func TestAWriteReplacesTheOneThatSettledBeforeIt(t *testing.T) {
	sizes, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	show(t, j, key("other"), 450)
	for range 5 {
		no(t, tryPut(j, key("a"), 500))
		w, _, err := j.Newest(key("a"))
		no(t, err)
		no(t, tryPut(j, key("a"), 500))
		no(t, j.Settle(w)) // there is a newer one
		sized(t, sizes, 950)
	}
}

// If writes seem not to fit because pending ones count as new, they are measured before one is refused.
func TestWritesAreMeasuredBeforeOneIsRefused(t *testing.T) {
	_, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	for _, name := range []string{"a", "b", "c", "d"} {
		show(t, j, key("%s", name), 200)
	}
	for range 3 {
		for _, name := range []string{"a", "b", "c", "d"} {
			no(t, tryPut(j, key("%s", name), 210))
		}
	}
	// Writes that were not looked up, because there was room, do not keep others out.
	_, with = limited(1000)
	j = open(t, vfs.NewMem(), with)
	for _, name := range []string{"a", "b", "c", "d"} {
		show(t, j, key("%s", name), 100)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		no(t, tryPut(j, key("%s", name), 110))
	}
	no(t, tryPut(j, key("e"), 400))
}
