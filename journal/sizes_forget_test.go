package journal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

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
	// Neither does a settled write that counts beside the one that it has replaced.
	_, with = limited(1000)
	j = open(t, vfs.NewMem(), with)
	for range 2 {
		no(t, tryPut(j, key("a"), 100))
		settle(t, j, key("a"))
	}
	no(t, tryPut(j, key("b"), 900))
}
