package journal_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/journal"
)

func observed(value string) *journal.Observation {
	return &journal.Observation{Value: value, ListBytes: len(value), CreatedAt: 10, UpdatedAt: 20}
}

func TestFillIsKept(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a := key("a")
	state, err := j.Fill(a, observed("1"), always)
	no(t, err)
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		kept := expect(t, j, a, journal.Settled, "1")
		if diff := cmp.Diff(state, kept); diff != "" {
			t.Error(diff)
		}
	}
	state, err = j.Fill(a, nil, always)
	no(t, err)
	if state.Kind != journal.Unknown {
		t.Errorf("state is %+v", state)
	}
	expect(t, open(t, crash(fs)), a, journal.Unknown, "")
	if _, err := j.Fill(key("never there"), nil, always); err != nil {
		t.Error(err)
	}
	if n := j.NotDurable(); n != 0 {
		t.Errorf("readers wait for %d fills", n)
	}
}

// contract 8
func TestOvertakenFillIsDropped(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	_, err := j.Fill(a, observed("1"), always)
	no(t, err)
	if _, err := j.Fill(a, observed("0"), func() bool { return false }); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("error is %v", err)
	}
	expect(t, j, a, journal.Settled, "1")
}

// A fill announces its change, so that of two concurrent fills of an entry one is dropped.
func TestFillIsAChange(t *testing.T) {
	changes := 0
	j := open(t, vfs.NewMem())
	j.Subscribe(func(journal.Change) { changes++ })
	for range 2 {
		before := changes
		_, err := j.Fill(key("a"), observed("1"), func() bool { return changes == before })
		no(t, err)
		if changes == before {
			t.Error("no change")
		}
	}
}

// A fill that keeps nothing also announces a change. On a nearly full disk the journal does not keep
// upstream's answer, but no reader may get an earlier one, or an absence (contract 7).
func TestFillThatKeepsNothingIsAChange(t *testing.T) {
	var changes []journal.ID
	d := &disk{FS: vfs.NewMem()}
	j := open(t, d, func(o *journal.Options) { o.DiskReserve = 1 << 20 })
	j.Subscribe(func(c journal.Change) { changes = append(changes, c.ID) })
	for _, o := range []*journal.Observation{observed("1"), nil} {
		changes = nil
		_, err := j.Fill(key("a"), o, always)
		no(t, err)
		expect(t, j, key("a"), journal.Unknown, "")
		if !slices.Contains(changes, key("a")) {
			t.Errorf("%v: told of %v", o, changes)
		}
	}
}

func rows(keys ...string) []journal.Row {
	var out []journal.Row
	for _, k := range keys {
		out = append(out, journal.Row{Key: k, ListBytes: 1, UpdatedAt: 20})
	}
	return out
}

// listed returns the keys of the settled listing.
func listed(t *testing.T, j *journal.Journal) []string {
	t.Helper()
	l, ok, err := j.Listing("ns", allRows)
	if err != nil || !ok {
		t.Fatalf("Listing = %v, %v", ok, err)
	}
	keys := []string{}
	for _, r := range l.Rows {
		keys = append(keys, r.Key)
	}
	return keys
}

func TestListingIsBroughtForward(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	if _, ok, err := j.Listing("ns", allRows); ok || err != nil {
		t.Fatalf("Listing = %v, %v", ok, err)
	}
	no(t, j.BeginListing("ns").Commit(rows("a", "b", "c"), true))
	put(t, j, key("d"), "longer")
	settle(t, j, key("d"))
	remove(t, j, key("a"))
	settle(t, j, key("a"))
	put(t, j, key("e"), "pending is not listed")
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		if diff := cmp.Diff([]string{"b", "c", "d"}, listed(t, j)); diff != "" {
			t.Error(diff)
		}
	}
	no(t, j.BeginListing("ns").Commit(rows("b", "x"), false))
	l, _, err := j.Listing("ns", allRows)
	no(t, err)
	want := journal.Listing{Rows: rows("b", "x")}
	for i := range want.Rows {
		want.Rows[i].Origin.At = want.Rows[i].UpdatedAt
	}
	if diff := cmp.Diff(want, l, cmpopts.IgnoreFields(journal.Listing{}, "FetchedAt")); diff != "" {
		t.Error(diff)
	}
}

// contract 8: upstream's listing may lack a write that settles while upstream makes it.
func TestWriteSettlesWhileListing(t *testing.T) {
	j := open(t, vfs.NewMem())
	put(t, j, key("old"), "1")
	settle(t, j, key("old"))
	put(t, j, key("new"), "1")
	fill := j.BeginListing("ns")
	other := j.BeginListing("elsewhere")
	settle(t, j, key("new"))
	remove(t, j, key("old"))
	settle(t, j, key("old"))
	no(t, fill.Commit(rows("old", "z"), true))
	no(t, other.Commit(nil, true))
	if diff := cmp.Diff([]string{"new", "z"}, listed(t, j)); diff != "" {
		t.Error(diff)
	}
}

// contract 7: a listing requested before another one, but answered after that one was taken, may be the
// older of the two.
func TestOvertakenListingIsDropped(t *testing.T) {
	j := open(t, vfs.NewMem())
	slow, cancelled := j.BeginListing("ns"), j.BeginListing("ns")
	no(t, j.BeginListing("ns").Commit(rows("a", "b"), true))
	cancelled.Cancel()
	if err := slow.Commit(rows("a"), true); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("error is %v", err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, listed(t, j)); diff != "" {
		t.Error(diff)
	}
	no(t, j.BeginListing("ns").Commit(rows("a"), true))
	if diff := cmp.Diff([]string{"a"}, listed(t, j)); diff != "" {
		t.Error(diff)
	}
}

// A row's time never goes back, regardless of upstream's clock (contract 19).
func TestListingTimesNeverDecrease(t *testing.T) {
	j := open(t, vfs.NewMem())
	w := put(t, j, key("a"), "1")
	no(t, j.BeginListing("ns").Commit(nil, true))
	settle(t, j, key("a"))
	no(t, j.BeginListing("ns").Commit(rows("a"), true))
	l, _, err := j.Listing("ns", allRows)
	no(t, err)
	if len(l.Rows) != 1 || l.Rows[0].UpdatedAt < w.UpdatedAt {
		t.Errorf("rows are %+v, the write was of %v", l.Rows, w.UpdatedAt)
	}
}

// A write that has just reached upstream is listed as the newest, even if upstream's clock is ahead.
func TestSettledWriteIsListedFirst(t *testing.T) {
	j := open(t, vfs.NewMem())
	ahead := float64(time.Now().Unix() + 3600)
	upstream := []journal.Row{{Key: "theirs", UpdatedAt: ahead}}
	no(t, j.BeginListing("ns").Commit(upstream, true))
	no(t, j.Settle(put(t, j, key("first"), "1")))
	fill := j.BeginListing("ns")
	no(t, j.Settle(put(t, j, key("second"), "2")))
	no(t, fill.Commit(append(upstream, journal.Row{Key: "first", UpdatedAt: ahead}), true))
	l, _, err := j.Listing("ns", allRows)
	no(t, err)
	slices.SortFunc(l.Rows, func(a, b journal.Row) int {
		if a.UpdatedAt > b.UpdatedAt {
			return -1
		}
		return 1
	})
	var order []string
	for _, r := range l.Rows {
		order = append(order, r.Key)
	}
	if diff := cmp.Diff([]string{"second", "first", "theirs"}, order); diff != "" {
		t.Errorf("newest first (-want +got):\n%s", diff)
	}
}

// contract 5, 8: while a write waits for its sync, an answer of upstream's is dropped. The write's condition was checked
// against the state before, so no reader may see another one in between.
func TestAnAnswerBesideAWriteThatIsBeingSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		fill := func(value string) error {
			_, err := j.Fill(key("a"), &journal.Observation{Value: value, UpdatedAt: 1}, func() bool { return true })
			return err
		}
		no(t, fill("theirs"))
		goOn := disk.stall()
		written, writtenErr := later(putting(j, key("a"), "mine"))
		written()
		filled, filledErr := later(func() error { return fill("their next") })
		if filled() || written() {
			t.Error("the sync is not stalled")
		}
		goOn()
		if !filled() || !written() || !errors.Is(*filledErr, journal.ErrChanged) || *writtenErr != nil {
			t.Errorf("the answer: %v; the write: %v", *filledErr, *writtenErr)
		}
		settle(t, j, key("a"))
		expect(t, j, key("a"), journal.Settled, "mine")
		no(t, fill("their last"))
	})
}

// contract 5, 8: so is a listing that lacks the entry.
func TestAListingBesideAWriteThatIsBeingSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		no(t, second(j.Fill(key("a"), &journal.Observation{Value: "theirs", UpdatedAt: 1}, always)))
		no(t, j.BeginListing("ns").Commit(rows("a"), true))
		goOn := disk.stall()
		written, writtenErr := later(putting(j, key("a"), "mine"))
		written()
		listed, listedErr := later(func() error { return j.BeginListing("ns").Commit(nil, true) })
		if listed() || written() {
			t.Error("the sync is not stalled")
		}
		goOn()
		if !listed() || !written() || !errors.Is(*listedErr, journal.ErrChanged) || *writtenErr != nil {
			t.Errorf("the listing: %v; the write: %v", *listedErr, *writtenErr)
		}
		expect(t, j, key("a"), journal.Value, "mine")
		no(t, j.BeginListing("ns").Commit(nil, true))
	})
}
