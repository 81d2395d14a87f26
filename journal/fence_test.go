package journal_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/journal"
)

// foreign returns another host's state, as upstream shows it with a time.
func foreign(value string, at float64) journal.Observation {
	return journal.Observation{Value: value, ListBytes: len(value), CreatedAt: at - 1, UpdatedAt: at}
}

// contract 17: the journal knows what a write is based on, even under pending writes and after a
// restart.
func TestBase(t *testing.T) {
	a := key("a")
	known := func(value string, origin journal.Origin) journal.Base {
		return journal.Base{Known: true, Present: true, Content: journal.ContentOf(journal.Put, value), Origin: origin}
	}
	absent := journal.Base{Known: true, Content: journal.ContentOf(journal.Delete, "")}
	fill := func(t *testing.T, j *journal.Journal) { no(t, second(j.Fill(a, observed("theirs"), always))) }
	for name, test := range map[string]struct {
		make func(*testing.T, *journal.Journal)
		want journal.Base
	}{
		"nothing":        {func(*testing.T, *journal.Journal) {}, journal.Base{}},
		"upstream's":     {fill, known("theirs", journal.Origin{At: 20})},
		"a settled put":  {func(t *testing.T, j *journal.Journal) { put(t, j, a, "1"); settle(t, j, a) }, known("1", journal.Origin{Seq: 1})},
		"a late put":     {func(t *testing.T, j *journal.Journal) { w := put(t, j, a, "1"); w.SentAfter = 9; no(t, j.Settle(w)) }, known("1", journal.Origin{Seq: 1, After: 9})},
		"a put and more": {func(t *testing.T, j *journal.Journal) { fill(t, j); put(t, j, a, "1"); settle(t, j, a) }, known("1", journal.Origin{Seq: 2, After: 20})},
		"two puts": {func(t *testing.T, j *journal.Journal) {
			fill(t, j)
			for _, value := range []string{"1", "2"} {
				w := put(t, j, a, value)
				w.SentAfter = 7 // no later than the known time
				no(t, j.Settle(w))
			}
		}, known("2", journal.Origin{Seq: 3, After: 20})},
		"a put that upstream shows": {func(t *testing.T, j *journal.Journal) {
			put(t, j, a, "theirs")
			settle(t, j, a)
			fill(t, j)
		}, known("theirs", journal.Origin{Seq: 1, At: 20})},
		"a settled delete": {func(t *testing.T, j *journal.Journal) { fill(t, j); remove(t, j, a); settle(t, j, a) }, journal.Base{}},
		"a delete of what was listed": {func(t *testing.T, j *journal.Journal) {
			no(t, j.BeginListing("ns").Commit(rows("a", "b"), true))
			remove(t, j, a)
			settle(t, j, a)
		}, absent},
		"not listed":       {func(t *testing.T, j *journal.Journal) { no(t, j.BeginListing("ns").Commit(rows("b"), true)) }, absent},
		"listed":           {func(t *testing.T, j *journal.Journal) { no(t, j.BeginListing("ns").Commit(rows("a"), true)) }, journal.Base{Listed: true}},
		"perhaps listed":   {func(t *testing.T, j *journal.Journal) { no(t, j.BeginListing("ns").Commit(rows("b"), false)) }, journal.Base{}},
		"listed elsewhere": {func(t *testing.T, j *journal.Journal) { no(t, j.BeginListing("other").Commit(rows("b"), true)) }, journal.Base{}},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs)
			test.make(t, j)
			put(t, j, a, "pending")
			for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
				got, err := j.Fence.Base(a)
				no(t, err)
				if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(got, "UpdatedAt")); diff != "" {
					t.Errorf("base (-want +got):\n%s", diff)
				}
				if (got.UpdatedAt != 0) != got.Present {
					t.Errorf("its time is %f", got.UpdatedAt)
				}
			}
		})
	}
}

// contract 17: a write that loses to another host's is kept with both values and times, and readers see
// the winner at once.
func TestLose(t *testing.T) {
	a := key("a")
	for name, before := range map[string]func(*testing.T, *journal.Journal){
		"of what was not known": func(*testing.T, *journal.Journal) {},
		"of what was known":     func(t *testing.T, j *journal.Journal) { no(t, second(j.Fill(a, observed("old"), always))) },
		"of what was listed":    func(t *testing.T, j *journal.Journal) { no(t, j.BeginListing("ns").Commit(rows("a", "b"), true)) },
		"of the journal's own":  func(t *testing.T, j *journal.Journal) { put(t, j, a, "own"); settle(t, j, a) },
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs)
			no(t, j.BeginListing("ns").Commit(rows("b"), true))
			before(t, j)
			w := put(t, j, a, "mine")
			sent(t, j, w)
			no(t, j.Fence.Lose(w, foreign("theirs", w.UpdatedAt+5), "another host wrote later"))
			for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
				state := expect(t, j, a, journal.Settled, "theirs")
				if state.WrittenAs != 0 || state.UpdatedAt != w.UpdatedAt+5 || state.CreatedAt != w.UpdatedAt+4 {
					t.Errorf("%+v", state)
				}
				if diff := cmp.Diff([]string{"a", "b"}, listed(t, j)); diff != "" {
					t.Error(diff)
				}
				wantOrigin(t, j, "a", 0)
				all, err := j.History.Of(a, 2)
				no(t, err)
				if p := all[1]; p.Seq != w.Seq || p.State != journal.PastLost || p.Value != "mine" || p.Shown || p.LostAt == 0 {
					t.Errorf("it is %+v", p)
				}
				if letters, err := j.DeadLetters(0, 10); len(letters) > 0 || err != nil {
					t.Errorf("%+v, %v", letters, err)
				}
				expectReceipt(t, j, w, journal.ReceiptSuperseded, journal.Write{}, "another host wrote later")
				if st := j.Stats(); st.Pending != 0 || st.OpenDeadLetters != 0 || st.Conflicts != 1 {
					t.Errorf("%+v", st)
				}
				if left := leftOf(t, j, a); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				base, err := j.Fence.Base(a)
				no(t, err)
				if want := (journal.Origin{At: w.UpdatedAt + 5}); base.Origin != want {
					t.Errorf("the origin is %+v", base.Origin)
				}
				check(t, j)
			}
		})
	}
}

// A newer write stays pending, and the older one has its receipt already. The newer one was made before
// the state was known, so it is not based on it.
func TestLoseWithANewerWrite(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	w := put(t, j, key("a"), "older")
	newer := put(t, j, key("a"), "newer")
	no(t, j.Fence.Lose(w, foreign("theirs", 20), "another host wrote later"))
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		expect(t, j, key("a"), journal.Value, "newer")
		if lost := lostOf(t, j, ""); len(lost) > 0 {
			t.Errorf("%q", lost)
		}
		expectReceipt(t, j, w, journal.ReceiptSuperseded, newer, "")
		if base, err := j.Fence.Base(key("a")); err != nil || base.Known {
			t.Errorf("%+v, %v", base, err)
		}
		check(t, j)
	}
}

// A copy that gives way is not lost, and its receipt says superseded.
func TestLoseOfACopy(t *testing.T) {
	j := open(t, vfs.NewMem())
	w, err := j.Append(journal.NewWrite{ID: key("a"), Op: journal.Put, Value: "copy", ListBytes: 4, WrittenAt: 5, LosesTies: true})
	no(t, err)
	no(t, j.Fence.Lose(w, foreign("theirs", 20), "another host wrote later"))
	expect(t, j, key("a"), journal.Settled, "theirs")
	if lost := lostOf(t, j, ""); len(lost) > 0 {
		t.Errorf("%q", lost)
	}
	expectReceipt(t, j, w, journal.ReceiptSuperseded, journal.Write{}, "another host wrote later")
	check(t, j)
}

// contract 7: no reader sees the winner before it is durable.
func TestReadersWaitForTheWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		w := put(t, j, key("a"), "1")
		goOn := disk.stall()
		lost, lostErr := later(func() error { return j.Fence.Lose(w, foreign("theirs", 20), "later") })
		lost()
		read, readErr := later(func() error { return second(j.Lookup(key("a"))) })
		if lost() || read() {
			t.Errorf("ended before the sync: %v, %v", lost(), read())
		}
		goOn()
		if !lost() || !read() || errors.Join(*lostErr, *readErr) != nil {
			t.Errorf("%v, %v", *lostErr, *readErr)
		}
		expect(t, j, key("a"), journal.Settled, "theirs")
	})
}

// The journal announces the winner to the subscriber.
func TestTheWinnerIsAnnounced(t *testing.T) {
	j := reopen(t, vfs.NewMem())
	var changes []journal.Change
	j.Subscribe(func(c journal.Change) { changes = append(changes, c) })
	w := put(t, j, key("a"), "1")
	changes = nil
	no(t, j.Fence.Lose(w, foreign("theirs", 20), "later"))
	ended := journal.Ending{Seq: w.Seq, Op: journal.Put, Bytes: 1, State: journal.ReceiptSuperseded, Reason: "later"}
	if diff := cmp.Diff([]journal.Change{{ID: key("a"), Seq: w.Seq, Ended: ended}}, changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// contract 17: a state about to be overwritten is kept first, and only once.
func TestOverrule(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	w := put(t, j, key("a"), "mine")
	state := foreign("theirs", 20)
	no(t, j.Fence.KeepOverwritten(w.ID, state))
	for name, j := range map[string]*journal.Journal{"": j, "after a power cut: ": open(t, crash(fs)), "before the rebuild: ": reopen(t, crash(fs))} {
		no(t, j.Fence.KeepOverwritten(w.ID, state))
		wantPast(t, j, w.ID, "theirs theirs lost", "mine ours pending")
		if st := j.Stats(); st.OpenDeadLetters != 0 || st.DeadLetters != 0 || st.Conflicts != 1 || st.Pending != 1 && !st.Rebuilding {
			t.Errorf("%s%+v", name, st)
		}
		if _, dead, err := j.IsDead(w.ID, w.Seq); dead || err != nil {
			t.Errorf("%sthe write is dead: %v, %v", name, dead, err)
		}
	}
	later := put(t, j, key("a"), "mine again")
	no(t, j.Fence.KeepOverwritten(later.ID, state))
	no(t, j.Fence.KeepOverwritten(later.ID, foreign("theirs", 21)))
	no(t, j.Fence.KeepOverwritten(later.ID, foreign("else", 21)))
	wantPast(t, j, w.ID, "else theirs lost", "theirs theirs lost", "mine again ours pending", "theirs theirs lost", "mine ours superseded")
	check(t, j)
}

// A dead letter that is retried without force keeps its write's time, which the fence compares.
func TestARetryKeepsItsTime(t *testing.T) {
	for name, force := range map[string]bool{"unforced": false, "forced": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				j := open(t, vfs.NewMem())
				w := put(t, j, key("a"), "1")
				no(t, j.DeadLetter(w, journal.Failure{Status: 413}))
				tick()
				last := w.Seq
				if force {
					last = journal.AnyWrite
				}
				again, err := j.Retry(w.Seq, last)
				no(t, err)
				if again.Fenced == force || (again.WrittenAt == w.WrittenAt) == force || again.UpdatedAt == w.UpdatedAt {
					t.Errorf("%+v", again)
				}
			})
		})
	}
}

// The fence compares the caller's own time, even if the clock jumped before. The entry's time never
// goes back.
func TestWrittenAt(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	w := put(t, j, key("a"), "1")
	if w.WrittenAt == 0 || w.WrittenAt > w.UpdatedAt {
		t.Errorf("%+v", w)
	}
	newest := func(want journal.NewWrite) {
		t.Helper()
		want.ID, want.Op, want.Value = key("a"), journal.Put, "2"
		_, err := j.Append(want)
		no(t, err)
		for _, j := range []*journal.Journal{j, open(t, crash(fs)), reopen(t, crash(fs))} {
			got, _, err := j.Newest(key("a"))
			if err != nil || got.WrittenAt != want.WrittenAt || got.LosesTies != want.LosesTies || got.Fenced != want.Fenced || got.UpdatedAt <= w.UpdatedAt {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
		}
	}
	newest(journal.NewWrite{WrittenAt: 5})
	newest(journal.NewWrite{WrittenAt: 1e10, LosesTies: true})
	newest(journal.NewWrite{WrittenAt: 6, Fenced: true})
	if w := put(t, j, key("a"), "3"); !w.Fenced || w.LosesTies {
		t.Errorf("%+v: it may follow a write that was not fenced", w)
	}
	settle(t, j, key("a"))
	if w := put(t, j, key("a"), "4"); w.Fenced {
		t.Errorf("%+v", w)
	}
}
