package journal_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// counted returns a file system that counts writes and syncs.
func counted() (fs vfs.FS, changes *atomic.Int64) {
	changes = new(atomic.Int64)
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite || isSync(op) {
			changes.Add(1)
		}
		return nil
	})), changes
}

// An answer from upstream that changes nothing is not written to disk, but is remembered. This goes for
// entries, absences and listings.
func TestUnchangedAnswerIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, changes := counted()
		j := open(t, fs)
		told := 0
		j.Subscribe(func(journal.Change) { told++ })
		no(t, j.BeginListing("ns").Commit(rows("a", "b"), true))
		no(t, second(j.Fill(key("a"), observed("1"), always)))
		no(t, second(j.Fill(key("gone"), nil, always)))
		listed := observed("2")
		listed.UpdatedAt = 20
		no(t, second(j.Fill(key("b"), listed, always)))
		time.Sleep(10 * time.Second) // until the mark is written
		before, toldBefore := changes.Load(), told
		var last time.Time
		for range 300 {
			time.Sleep(10 * time.Second)
			last = time.Now()
			state, err := j.Fill(key("a"), observed("1"), always)
			no(t, err)
			if !state.ConfirmedAt.Equal(last) {
				t.Errorf("confirmed at %v, want %v", state.ConfirmedAt, last)
			}
			no(t, second(j.Fill(key("gone"), nil, always)))
			no(t, second(j.Fill(key("b"), listed, always)))
			no(t, j.BeginListing("ns").Commit(append(rows("b"), journal.Row{Key: "a", ListBytes: 1, UpdatedAt: 20}), true))
		}
		if n := changes.Load() - before; n != 0 {
			t.Errorf("1,200 answers without news took %d writes and syncs", n)
		}
		if n := told - toldBefore; n < 1200 {
			t.Errorf("the subscriber was told %d times of 1,200 answers", n)
		}
		if state := expect(t, j, key("a"), journal.Settled, "1"); !state.ConfirmedAt.Equal(last) {
			t.Errorf("confirmed at %v, want %v", state.ConfirmedAt, last)
		}
		l, ok, err := j.Listing("ns", allRows)
		no(t, err)
		if !ok || !l.Complete || !l.FetchedAt.Equal(last) {
			t.Errorf("listing is %+v, want it to be of %v", l, last)
		}
		no(t, second(j.Fill(key("a"), observed("2"), always)))
		if changes.Load() == before {
			t.Error("news are not written")
		}
	})
}

// An unchanged answer is never older than the copy says. After a restart the copy is as old as on disk.
func TestUnchangedAnswerAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		j := open(t, fs)
		first, err := j.Fill(key("a"), observed("1"), always)
		no(t, err)
		time.Sleep(time.Minute)
		no(t, second(j.Fill(key("a"), observed("1"), always)))
		no(t, j.Close())
		if state := expect(t, open(t, fs), key("a"), journal.Settled, "1"); !state.ConfirmedAt.Equal(first.ConfirmedAt) {
			t.Errorf("confirmed at %v, want %v", state.ConfirmedAt, first.ConfirmedAt)
		}
	})
}

// After the clock was set back, copies and listings have times in the future. Once upstream has
// confirmed them, they get the present time although they are unchanged. Otherwise they would be
// useless until the clock has caught up (contract 19).
func TestUnchangedAnswerAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		no(t, j.BeginListing("ns").Commit(rows("a"), true))
		no(t, second(j.Fill(key("a"), observed("1"), always)))
		no(t, j.ConfirmedAt(key("a"), time.Now().Add(time.Hour)))
		no(t, second(j.Fill(key("a"), observed("1"), always)))
		no(t, j.BeginListing("ns").Commit(rows("a"), true))
		if state := expect(t, j, key("a"), journal.Settled, "1"); state.ConfirmedAt.After(time.Now()) {
			t.Errorf("confirmed at %v, and it is %v", state.ConfirmedAt, time.Now())
		}
		if l, _, err := j.Listing("ns", allRows); err != nil || l.FetchedAt.After(time.Now()) {
			t.Errorf("fetched at %v, and it is %v; %v", l.FetchedAt, time.Now(), err)
		}
	})
}
