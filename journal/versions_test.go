package journal_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// notBefore makes the writes of a journal later than a time.
func notBefore(at *float64) func(*journal.Options) {
	return func(o *journal.Options) { o.Exact, o.NotBefore = true, func(journal.ID) float64 { return *at } }
}

func micros(seconds float64) int64 { return int64(seconds*1e6 + 0.5) }

func nowSeconds() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

// contract 17: a write is later than the known state upstream, regardless of the clock, and later than
// the write before it.
func TestAWriteFollowsWhatIsKnown(t *testing.T) {
	for name, ahead := range map[string]float64{"the past": -60, "now": 0, "the future": 3600} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				known := nowSeconds() + ahead
				j := open(t, vfs.NewMem(), notBefore(&known))
				want := max(micros(known)+1, micros(nowSeconds()))
				for i, w := range []journal.Write{put(t, j, key("a"), "1"), put(t, j, key("b"), "1"), remove(t, j, key("a"))} {
					if got := micros(w.UpdatedAt); got != want+int64(i) {
						t.Errorf("write %d is of %d, want %d", i, got, want+int64(i))
					}
					if micros(w.WrittenAt) != micros(nowSeconds()) {
						t.Errorf("write %d was made at %f", i, w.WrittenAt)
					}
				}
				known += 7200
				if w := put(t, j, key("c"), "1"); micros(w.UpdatedAt) != max(micros(known)+1, want+3) {
					t.Errorf("it is of %f, and %f is known", w.UpdatedAt, known)
				}
			})
		})
	}
}

// A write that upstream has confirmed gets upstream's times, here and in the copy that it leaves.
func TestAWriteWithATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := nowSeconds()
		j := open(t, vfs.NewMem(), notBefore(&known))
		at := known + 5
		w, err := j.Append(journal.NewWrite{ID: key("a"), Op: journal.Put, Value: "1", ListBytes: 1, At: at})
		no(t, err)
		if w.UpdatedAt != at {
			t.Errorf("it is of %f, want %f", w.UpdatedAt, at)
		}
		w.CreatedAt = known - 5
		no(t, j.Settle(w))
		if state := lookup(t, j, key("a")); state.UpdatedAt != at || state.CreatedAt != known-5 {
			t.Errorf("the copy is %+v", state)
		}
		if base, err := j.Fence.Base(key("a")); err != nil || base.UpdatedAt != at {
			t.Errorf("the base is %+v, %v", base, err)
		}
		later := put(t, j, key("a"), "2")
		w, err = j.Append(journal.NewWrite{ID: key("a"), Op: journal.Put, Value: "3", At: later.UpdatedAt - 1})
		no(t, err)
		if w.UpdatedAt != later.UpdatedAt {
			t.Errorf("it is of %f, and the write before it of %f", w.UpdatedAt, later.UpdatedAt)
		}
	})
}

// contract 17: while a write is pending, no answer from upstream replaces the state that it is based
// on.
func TestThePendingWritesBaseStays(t *testing.T) {
	for name, answer := range map[string]func(*journal.Journal) error{
		"another host's state": func(j *journal.Journal) error { return second(j.Fill(key("a"), observed("theirs"), always)) },
		"absent":               func(j *journal.Journal) error { return second(j.Fill(key("a"), nil, always)) },
		"not listed":           func(j *journal.Journal) error { return j.BeginListing("ns").Commit(rows("b"), true) },
	} {
		t.Run(name, func(t *testing.T) {
			fs, known := vfs.NewCrashableMem(), 1.0
			j := open(t, fs, notBefore(&known))
			put(t, j, key("a"), "1")
			settle(t, j, key("a"))
			w := put(t, j, key("a"), "2")
			no(t, ignoring(journal.ErrChanged, answer(j)))
			again := reopen(t, crash(fs), notBefore(&known))
			no(t, ignoring(journal.ErrChanged, answer(again))) // before the index knows the write
			for _, j := range []*journal.Journal{j, again} {
				base, err := j.Fence.Base(key("a"))
				if no(t, err); base.Content != journal.ContentOf(journal.Put, "1") || base.Origin.Seq != 1 {
					t.Errorf("the base is %+v", base)
				}
			}
			no(t, j.Fence.Lose(w, foreign("theirs", w.UpdatedAt+1), "later"))
			no(t, answer(j)) // nothing is pending now
			if base, err := j.Fence.Base(key("a")); err != nil || base.Content == journal.ContentOf(journal.Put, "1") {
				t.Errorf("the base is %+v, %v", base, err)
			}
		})
	}
}

// ignoring returns nil for one error, and err otherwise.
func ignoring(that, err error) error {
	if errors.Is(err, that) {
		return nil
	}
	return err
}

// contract 17: another host's delete beats a put, and readers see this at once.
func TestLoseToDelete(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	no(t, j.BeginListing("ns").Commit(rows("a", "b"), true))
	put(t, j, key("a"), "1")
	settle(t, j, key("a"))
	w := put(t, j, key("a"), "2")
	no(t, j.Fence.LoseToDelete(w, w.UpdatedAt+5, "another host deleted it later"))
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		expect(t, j, key("a"), journal.Absent, "")
		wantPast(t, j, key("a"), " theirs shown", "2 ours lost", "1 ours gone")
	}
}

// Readers do not go back to before a state that is newer than the delete. A newer write keeps its base.
func TestLoseToAnOldDelete(t *testing.T) {
	j := open(t, vfs.NewMem())
	no(t, second(j.Fill(key("a"), observed("newer"), always)))
	w := put(t, j, key("a"), "2")
	no(t, j.Fence.LoseToDelete(w, 19, "older"))
	expect(t, j, key("a"), journal.Settled, "newer")
	w = put(t, j, key("a"), "3")
	put(t, j, key("a"), "4")
	no(t, j.Fence.LoseToDelete(w, 30, "later"))
	expect(t, j, key("a"), journal.Value, "4")
	if base, err := j.Fence.Base(key("a")); err != nil || !base.Present {
		t.Errorf("the base is %+v, %v", base, err)
	}
}

// contract 17: a delete about to be overwritten is kept like a value, and only once.
func TestOverruleDelete(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	w := put(t, j, key("a"), "mine")
	for range 2 {
		no(t, j.Fence.KeepOverwrittenDelete(w.ID, 20))
	}
	no(t, j.Fence.KeepOverwritten(w.ID, foreign("", 20))) // an empty value is not a delete
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		wantPast(t, j, key("a"), " theirs lost", " theirs lost", "mine ours pending")
		lost, err := j.History.Lost("ns", 0, 10)
		if no(t, err); lost[0].Op != journal.Put || lost[1].Op != journal.Delete || lost[1].WrittenAt != 20 {
			t.Errorf("%+v", lost)
		}
	}
}
