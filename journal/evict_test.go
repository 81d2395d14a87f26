package journal_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

const copySize = 10 << 10

func copies(o *journal.Options) { o.CopiesBytes = 100 * copySize }

// learn fills in upstream's answer for an entry.
func learn(t *testing.T, j *journal.Journal, id journal.ID) {
	t.Helper()
	no(t, second(j.Fill(id, observed(strings.Repeat("x", copySize)), always)))
}

// Settled copies stay within their budget: the least recently used ones are removed, and all other
// records stay.
func TestCopiesStayWithinTheirBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		j := open(t, fs, copies)
		put(t, j, key("pending"), "1")
		for i := range 90 {
			learn(t, j, key("copy%02d", i))
			time.Sleep(time.Second)
		}
		maintain(t, j, 5*time.Second)
		for i := range 90 {
			expect(t, j, key("copy%02d", i), journal.Settled, strings.Repeat("x", copySize))
			time.Sleep(time.Second)
		}
		for i := range 20 { // read last
			lookup(t, j, key("copy%02d", i))
		}
		time.Sleep(time.Second)
		for i := range 30 {
			learn(t, j, key("more%02d", i))
		}
		maintain(t, j, 5*time.Second)
		kept := 0
		for i := range 90 {
			state := lookup(t, j, key("copy%02d", i))
			if state.Kind == journal.Settled {
				kept++
			}
			if i < 20 && state.Kind != journal.Settled {
				t.Errorf("copy %d was read last and is gone", i)
			}
		}
		for i := range 30 {
			if lookup(t, j, key("more%02d", i)).Kind != journal.Settled {
				t.Errorf("copy %d was made last and is gone", i)
			}
		}
		if kept < 20 || kept > 50 {
			t.Errorf("%d of 90 older copies are kept, beside 30 newer ones, with room for 100", kept)
		}
		expect(t, j, key("pending"), journal.Value, "1")
		check(t, j)
		no(t, j.FlushTables())
		if used, err := j.DB().EstimateDiskUsage([]byte("s/"), []byte("s0")); err != nil || used > 110*copySize {
			t.Errorf("they take %d bytes on the disk, %v", used, err)
		}
	})
}

// Copies that just fit are also reduced. Otherwise every new copy would cost another pass over all of
// them.
func TestCopiesThatJustFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		for i := range 98 {
			learn(t, j, key("copy%02d", i))
			time.Sleep(time.Second)
		}
		no(t, j.Evict(100*copySize))
		kept := 0
		for i := range 98 {
			if lookup(t, j, key("copy%02d", i)).Kind == journal.Settled {
				kept++
			}
		}
		if kept < 70 || kept > 80 {
			t.Errorf("%d of 98 copies are kept, with room for 100", kept)
		}
	})
}

// Listings count toward the budget, and are removed whole.
func TestListingsStayWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem(), copies)
		var listing []journal.Row
		for i := range 1000 {
			listing = append(listing, journal.Row{Key: fmt.Sprintf("%0100d", i), ListBytes: 1, UpdatedAt: 20})
		}
		for i := range 12 {
			no(t, j.BeginListing(fmt.Sprint("ns", i)).Commit(listing, true))
			time.Sleep(time.Second)
		}
		maintain(t, j, 5*time.Second)
		kept := 0
		for i := range 12 {
			l, ok, err := j.Listing(fmt.Sprint("ns", i), allRows)
			no(t, err)
			if ok && len(l.Rows) != len(listing) {
				t.Errorf("listing %d has %d rows", i, len(l.Rows))
			}
			if ok {
				kept++
			} else if i > 8 {
				t.Errorf("listing %d is gone, which was made late", i)
			}
		}
		if kept < 3 || kept > 8 {
			t.Errorf("%d listings are kept, with room for 8", kept)
		}
	})
}

// A pending entry takes its created_at from its copy: the copy stays even if room is needed.
func TestPendingEntryKeepsItsCreatedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem(), copies)
		a := key("copy50")
		for i := range 99 {
			learn(t, j, key("copy%02d", i))
		}
		time.Sleep(time.Hour)
		put(t, j, a, "new")
		before := lookup(t, j, a)
		if before.CreatedAt != 10 {
			t.Fatalf("created at %v", before.CreatedAt)
		}
		no(t, j.DropCopies())
		if after := lookup(t, j, a); after != before {
			t.Errorf("it was %+v and is %+v", before, after)
		}
		for i := range 99 {
			if kind := lookup(t, j, key("copy%02d", i)).Kind; kind == journal.Settled {
				t.Errorf("copy %d is still there", i)
			}
		}
		for i := range 150 {
			learn(t, j, key("more%02d", i))
		}
		maintain(t, j, 5*time.Second)
		if after := lookup(t, j, a); after != before {
			t.Errorf("it was %+v and is %+v", before, after)
		}
		check(t, j)
	})
}

// If a write settles, or upstream's answer arrives, while a listing is removed and the removal is not
// durable yet, it must not create a listing with only its own row. That would pass for everything
// upstream holds.
func TestWriteSettlesWhileTheListingIsRemoved(t *testing.T) {
	for name, brings := range map[string]func(*journal.Journal, journal.Write) error{
		"a write": (*journal.Journal).Settle,
		"an answer": func(j *journal.Journal, w journal.Write) error {
			return second(j.Fill(w.ID, &journal.Observation{Value: "1", ListBytes: 1, UpdatedAt: 30}, always))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newStalling()
				j := open(t, disk.fs)
				no(t, j.BeginListing("ns").Commit(rows("a", "b"), true))
				w := put(t, j, key("c"), "1")
				goOn := disk.stall()
				first, _ := later(putting(j, key("first"), "1"))
				first()
				removed, removeErr := later(func() error { return j.DropListing("ns") })
				removed()
				brought, broughtErr := later(func() error { return brings(j, w) })
				if removed() || brought() || j.CopiesLocked("ns") {
					t.Errorf("ended before the sync: %v, %v; the lock is held: %v", removed(), brought(), j.CopiesLocked("ns"))
				}
				goOn()
				if !removed() || !brought() || *removeErr != nil || *broughtErr != nil {
					t.Errorf("%v, %v", *removeErr, *broughtErr)
				}
				if l, ok, err := j.Listing("ns", allRows); ok || err != nil {
					t.Errorf("the listing is %+v, %v", l, err)
				}
			})
		})
	}
}

// The budget counts the bytes of the values, also of those that a listing counts as small.
func TestBudgetOfCopiesCountsTheirValues(t *testing.T) {
	j := open(t, vfs.NewMem(), copies)
	for i := range 300 {
		no(t, second(j.Fill(key("%d", i), &journal.Observation{Value: "\x00" + noise(copySize), UpdatedAt: 20}, always)))
	}
	no(t, j.Evict(100*copySize))
	kept := 0
	for i := range 300 {
		if lookup(t, j, key("%d", i)).Kind == journal.Settled {
			kept++
		}
	}
	if kept == 0 || kept > 100 {
		t.Errorf("%d copies are kept, with room for 100", kept)
	}
}
