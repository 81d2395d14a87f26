package journal_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

func list(t testing.TB, j *journal.Journal, complete bool, rows ...journal.Row) {
	t.Helper()
	no(t, j.BeginListing("ns").Commit(rows, complete))
}

// In a namespace with more keys than upstream lists, each write that settles adds a row to the kept
// listing. The next listing removes those that upstream does not show. Their entries' copies stay.
func TestAnIncompleteListingTrimsTheKeptOne(t *testing.T) {
	const entries, shows = 3000, 100
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	list(t, j, true)
	var shown []journal.Row
	for i := range entries {
		put(t, j, key("e%04d", i), "value")
		settle(t, j, key("e%04d", i))
		if i >= entries-shows {
			shown = append(shown, journal.Row{Key: key("e%04d", i).Key, ListBytes: 5, UpdatedAt: float64(1000 + i)})
		}
	}
	if l, _, err := j.Listing("ns", allRows); err != nil || len(l.Rows) != entries || !l.Complete {
		t.Fatalf("%d rows before, complete: %v, %v", len(l.Rows), l.Complete, err)
	}
	foreign := journal.Row{Key: "another host's", ListBytes: 7, UpdatedAt: 9000}
	list(t, j, false, append(shown, foreign)...)
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		l, _, err := j.Listing("ns", allRows)
		no(t, err)
		if len(l.Rows) != shows+1 || l.Complete || l.Cut {
			t.Errorf("%d rows, complete: %v, cut: %v", len(l.Rows), l.Complete, l.Cut)
		}
		expect(t, j, key("e0000"), journal.Settled, "value")
		expect(t, j, key("unheard of"), journal.Unknown, "")
		l, _, err = j.Listing("ns", 10)
		no(t, err)
		if len(l.Rows) != 11 || !l.Cut {
			t.Errorf("%d of the newest rows, cut: %v", len(l.Rows), l.Cut)
		}
	}
}
