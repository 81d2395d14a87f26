package journal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// A write that upstream holds and the journal had no room for takes the place of what is known
// here. Its entry goes on counting, and a later write to it counts once.
func TestAnEntryThatIsOvertakenCountsOnce(t *testing.T) {
	sizes, with := limited(1 << 40)
	j := open(t, vfs.NewMem(), with)
	show(t, j, key("copied"), 300)
	list(t, j, true, journal.Row{Key: "copied", ListBytes: 300, UpdatedAt: 1}, journal.Row{Key: "listed", ListBytes: 200, UpdatedAt: 1})
	no(t, j.Through.Overtaken(key("copied"), 0))
	no(t, j.Through.Overtaken(key("listed"), 0))
	sized(t, sizes, 500)
	no(t, tryPut(j, key("copied"), 310))
	w, _, err := j.Newest(key("copied"))
	no(t, err)
	no(t, j.Through.Overtaken(key("copied"), w.Seq-1)) // there is a newer one
	settle(t, j, key("copied"))
	sized(t, sizes, 500)
	remove(t, j, key("listed"))
	settle(t, j, key("listed"))
	sized(t, sizes, 310) // nobody knows of how many
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

// Entries whose copies, or listing, were removed go on counting. A later write to one counts in its
// place once it settles.
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
			no(t, tryPut(j, key("e0"), 300))
			no(t, j.Evict(1))
			if kept := lookup(t, j, key("e1")); kept.Kind != journal.Unknown {
				t.Fatalf("nothing was removed: %+v", kept)
			}
			sized(t, sizes, 3300) // the write counts as new so far
			settle(t, j, key("e0"))
			sized(t, sizes, 3000)
			no(t, tryPut(j, key("e1"), 300)) // removed
			settle(t, j, key("e1"))
			sized(t, sizes, 3000)
			remove(t, j, key("e2"))
			settle(t, j, key("e2"))
			sized(t, sizes, 2700) // it may have been the largest
			show(t, j, key("e3"), 300)
			sized(t, sizes, 2700)
			check(t, j)
		})
	}
}
