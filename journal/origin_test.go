package journal_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/journal"
)

// wantOrigin checks that the listing attributes an entry's row to a write, or (with 0) to another
// writer.
func wantOrigin(t *testing.T, j *journal.Journal, name string, seq uint64) {
	t.Helper()
	l, ok, err := j.Listing("ns", allRows)
	no(t, err)
	for _, r := range l.Rows {
		if r.Key == name {
			if r.Origin.Seq != seq {
				t.Errorf("%s is listed as write %d, want %d", name, r.Origin.Seq, seq)
			}
			return
		}
	}
	t.Errorf("%s is not listed (%v)", name, ok)
}

// upstreamRow returns the row of a write as upstream lists it with a time.
func upstreamRow(w journal.Write, at float64) journal.Row {
	return journal.Row{Key: w.Key, ListBytes: w.ListBytes, UpdatedAt: at}
}

func anew(t *testing.T, j *journal.Journal, rows ...journal.Row) {
	t.Helper()
	no(t, j.BeginListing("ns").Commit(rows, true))
}

// contract 10: a listing knows which rows are this journal's writes for as long as upstream holds them,
// even in a namespace that was not listed before, and after a restart.
func TestAListingKnowsItsWrites(t *testing.T) {
	for name, shown := range map[string]func(t *testing.T, j *journal.Journal, w journal.Write){
		"by no listing yet": func(*testing.T, *journal.Journal, journal.Write) {},
		"by a listing":      func(t *testing.T, j *journal.Journal, w journal.Write) { anew(t, j, upstreamRow(w, 30)) },
		"by a read": func(t *testing.T, j *journal.Journal, w journal.Write) {
			o := &journal.Observation{Value: w.Value, ListBytes: w.ListBytes, CreatedAt: 30, UpdatedAt: 30}
			no(t, second(j.Fill(w.ID, o, always)))
		},
		"by a read and a listing": func(t *testing.T, j *journal.Journal, w journal.Write) {
			o := &journal.Observation{Value: w.Value, ListBytes: w.ListBytes, CreatedAt: 30, UpdatedAt: 30}
			no(t, second(j.Fill(w.ID, o, always)))
			anew(t, j, upstreamRow(w, 30))
			no(t, second(j.Fill(w.ID, o, always)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs)
			w := put(t, j, key("a"), "1")
			no(t, j.Settle(w))
			shown(t, j, w)
			j = open(t, crash(fs))
			anew(t, j, upstreamRow(w, 30))
			wantOrigin(t, j, "a", w.Seq)
			anew(t, j, upstreamRow(w, 31)) // another writer's row of the same size
			wantOrigin(t, j, "a", 0)
			anew(t, j, upstreamRow(w, 30)) // the origin does not come back
			wantOrigin(t, j, "a", 0)
		})
	}
}

// Another writer's value that replaces a write does not count as the write.
func TestAnotherWritersValueIsNotTheJournals(t *testing.T) {
	other := &journal.Observation{Value: "2", ListBytes: 1, CreatedAt: 30, UpdatedAt: 30}
	for name, shown := range map[string]func(t *testing.T, j *journal.Journal){
		"read":   func(t *testing.T, j *journal.Journal) { no(t, second(j.Fill(key("a"), other, always))) },
		"listed": func(t *testing.T, j *journal.Journal) { anew(t, j, journal.Row{Key: "a", ListBytes: 2, UpdatedAt: 30}) },
	} {
		for _, listed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, listed before: %t", name, listed), func(t *testing.T) {
				j := open(t, vfs.NewMem())
				if listed {
					anew(t, j)
				}
				no(t, j.Settle(put(t, j, key("a"), "1")))
				shown(t, j)
				anew(t, j, journal.Row{Key: "a", ListBytes: other.ListBytes, UpdatedAt: 30})
				wantOrigin(t, j, "a", 0)
			})
		}
	}
}

// contract 10: writes that reach upstream in another order are listed with times in the order of the
// writes.
func TestListedTimesAreInTheOrderOfTheWrites(t *testing.T) {
	j := open(t, vfs.NewMem())
	a, b, c := put(t, j, key("a"), "1"), put(t, j, key("b"), "2"), put(t, j, key("c"), "3")
	for _, w := range []journal.Write{c, b, a} {
		no(t, j.Settle(w))
	}
	anew(t, j, upstreamRow(c, 3e9), upstreamRow(b, 3e9+2), upstreamRow(a, 3e9+1), journal.Row{Key: "theirs", ListBytes: 1, UpdatedAt: 3e9 + 5})
	l, _, err := j.Listing("ns", allRows)
	no(t, err)
	want := []journal.Row{
		{Key: "a", UpdatedAt: 3e9 + 1}, {Key: "b", UpdatedAt: 3e9 + 2}, {Key: "c", UpdatedAt: 3e9 + 2 + 1e-6}, {Key: "theirs", UpdatedAt: 3e9 + 5},
	}
	sameTimes := cmp.Options{cmpopts.IgnoreFields(journal.Row{}, "ListBytes", "Origin"), cmpopts.EquateApprox(0, 1e-7)}
	if diff := cmp.Diff(want, l.Rows, sameTimes); diff != "" {
		t.Error(diff)
	}
}

// contract 19: a listing never shows an older time than its entries' copies.
func TestTheFirstListingIsNotOlderThanItsCopies(t *testing.T) {
	j := open(t, vfs.NewMem())
	w := put(t, j, key("a"), "1")
	no(t, j.Settle(w))
	anew(t, j, upstreamRow(w, 30)) // upstream's clock is behind
	l, _, err := j.Listing("ns", allRows)
	no(t, err)
	if len(l.Rows) != 1 || l.Rows[0].UpdatedAt < w.UpdatedAt {
		t.Errorf("rows are %+v, the write was of %f", l.Rows, w.UpdatedAt)
	}
}
