package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// pastOf returns the versions of an entry, the newest first, each as its value, who made it, and its state.
func pastOf(t *testing.T, j *journal.Journal, id journal.ID) (past []string) {
	t.Helper()
	all, err := j.History.Of(id, 1000)
	no(t, err)
	for _, p := range all {
		who := "ours"
		if p.Shown {
			who = "theirs"
		}
		if (p.LostAt != 0) != (p.State == journal.PastLost || p.State == journal.PastGone) {
			t.Errorf("%+v", p)
		}
		past = append(past, fmt.Sprint(p.Value, " ", who, " ", p.State))
	}
	return past
}

// lostOf returns the keys and times of the versions that are lost, the last one first.
func lostOf(t *testing.T, j *journal.Journal, namespace string) (lost []string) {
	t.Helper()
	var before uint64
	for {
		some, err := j.History.Lost(namespace, before, 2)
		no(t, err)
		for _, p := range some {
			if p.Value != "" || p.State != journal.PastLost || p.LostAt == 0 {
				t.Errorf("%+v", p)
			}
			lost = append(lost, fmt.Sprintf("%s %s by %q of %q", p.ID, p.Op, p.Author, p.Host))
			before = p.Order
		}
		if len(some) == 0 {
			return lost
		}
	}
}

func wantPast(t *testing.T, j *journal.Journal, id journal.ID, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, pastOf(t, j, id)); diff != "" {
		t.Errorf("the history of %s (-want +got):\n%s", id, diff)
	}
}

// contract 17: what a conflict beats stands in the entry's history, on either side, with its writer and its time.
func TestTheLoserIsAVersion(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a, b, other := key("a"), key("b"), journal.ID{Namespace: "other", Key: "c"}
	no(t, second(j.Fill(a, observed("old"), always)))
	mine, err := j.Append(journal.NewWrite{ID: a, Op: journal.Put, Value: "mine", ListBytes: 4, Author: "agent"})
	no(t, err)
	no(t, j.Fence.Lose(mine, foreign("theirs", mine.WrittenAt+5), "another host wrote later"))
	w := put(t, j, b, "later")
	theirs := foreign("earlier", 20)
	theirs.Author, theirs.Host, theirs.MadeAt = "their agent", "their host", 19
	for range 2 { // once
		no(t, j.Fence.KeepOverwritten(w.ID, theirs))
	}
	no(t, j.Settle(w))
	gone := put(t, j, other, "mine")
	no(t, j.Fence.LoseToDelete(gone, gone.WrittenAt+5, "another host deleted later"))
	no(t, j.Fence.KeepOverwrittenDelete(put(t, j, other, "again").ID, 30))
	for name, j := range map[string]*journal.Journal{"": j, "after a power cut: ": open(t, crash(fs))} {
		wantPast(t, j, a, "theirs theirs current", "mine ours lost", "old theirs shown")
		wantPast(t, j, b, "earlier theirs lost", "later ours current")
		wantPast(t, j, other, " theirs lost", "again ours pending", " theirs shown", "mine ours lost")
		want := []string{`other/c delete by "" of ""`, `other/c put by "" of ""`, `ns/b put by "their agent" of "their host"`, `ns/a put by "agent" of ""`}
		if diff := cmp.Diff(want, lostOf(t, j, "")); diff != "" {
			t.Errorf("%sall that is lost (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(want[2:], lostOf(t, j, "ns")); diff != "" {
			t.Errorf("%slost of ns (-want +got):\n%s", name, diff)
		}
		all, err := j.History.Of(b, 1)
		no(t, err)
		if p := all[0]; p.WrittenAt != 19 || p.Author != "their agent" || p.Host != "their host" {
			t.Errorf("%s%+v", name, p)
		}
		for write, want := range map[*journal.Write]bool{&mine: true, &w: false, &gone: true} {
			if state, got, err := j.IsDead(write.ID, write.Seq); got != want || got && state != journal.ReceiptSuperseded || err != nil {
				t.Errorf("%swrite %d was lost: %v, %v, %v", name, write.Seq, state, got, err)
			}
		}
		check(t, j)
	}
}

// A state that was gone, and that upstream shows again, is lost like any other.
func TestWhatWasGoneIsLost(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	no(t, second(j.Fill(a, observed("theirs"), always)))
	no(t, second(j.Fill(a, nil, always)))
	put(t, j, a, "mine")
	for range 2 {
		no(t, j.Fence.KeepOverwritten(a, *observed("theirs")))
	}
	wantPast(t, j, a, "theirs theirs lost", "mine ours pending", " theirs shown", "theirs theirs gone")
}

// contract 13: neither the history's budget nor a full disk takes what is lost.
func TestLossesHaveRoomOfTheirOwn(t *testing.T) {
	for name, remove := range map[string]func(*journal.Journal) error{
		"history":   func(j *journal.Journal) error { return j.BoundHistory(1) },
		"full disk": (*journal.Journal).DropCopies,
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs)
			a := key("a")
			for i := range 3 {
				no(t, j.Fence.Lose(put(t, j, a, fmt.Sprint("mine", i)), foreign(fmt.Sprint("theirs", i), 20+float64(i)), "later"))
				no(t, j.Fence.KeepOverwritten(put(t, j, a, "waits").ID, foreign(fmt.Sprint("earlier", i), 10+float64(i))))
			}
			no(t, remove(j))
			want := []string{
				"earlier2 theirs lost", "waits ours pending", "theirs2 theirs current", "mine2 ours lost", "earlier1 theirs lost", "mine1 ours lost",
				"earlier0 theirs lost", "mine0 ours lost",
			}
			for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
				got := pastOf(t, j, a)
				if got = slices.DeleteFunc(got, func(p string) bool { return p == "theirs2 theirs current" }); !slices.Equal(got, slices.DeleteFunc(slices.Clone(want), func(p string) bool { return p == "theirs2 theirs current" })) {
					t.Errorf("%q", got)
				}
				check(t, j)
			}
		})
	}
}

// contract 13: beyond their room, the oldest losses go first. A write of this journal is a version like any other then, and
// another host's state is gone. A long conflict takes no room from writes.
func TestTheOldestLossesGoFirst(t *testing.T) {
	const budget = 80 << 10
	fs := vfs.NewCrashableMem()
	bounded := func(o *journal.Options) { o.MaxBytes = budget }
	j := open(t, fs, bounded)
	a, b := key("a"), key("b")
	waits := put(t, j, b, "waits")
	for i := range 30 {
		w := put(t, j, a, fmt.Sprint(i, strings.Repeat("x", 500)))
		no(t, j.Fence.Lose(w, foreign(fmt.Sprint(i, strings.Repeat("y", 500)), 20+float64(i)), "later"))
		no(t, j.Fence.KeepOverwritten(waits.ID, foreign(fmt.Sprint(i, strings.Repeat("z", 500)), 20+float64(i))))
	}
	for _, j := range []*journal.Journal{j, open(t, crash(fs), bounded)} {
		lost := lostOf(t, j, "")
		if n := len(lost); n != 17 || j.Stats().Conflicts != n { // 10 KiB, and each counts for 500, its name, and 64
			t.Errorf("%d are lost, and %d are counted", n, j.Stats().Conflicts)
		}
		ours, theirs := pastOf(t, j, a), pastOf(t, j, b)
		if len(ours) != 60 || len(theirs) != 1+9 {
			t.Errorf("%d versions of a, and %d of b", len(ours), len(theirs))
		}
		if got := ours[len(ours)-1][len("0xx"):]; !strings.HasSuffix(got, "x ours superseded") {
			t.Errorf("the oldest is %s", got)
		}
		check(t, j)
	}
	no(t, j.BoundHistory(1))
	if got := pastOf(t, j, a); len(got) != 9 {
		t.Errorf("%d versions of a", len(got))
	}
	no(t, j.Fence.KeepOverwritten(waits.ID, foreign(strings.Repeat("y", budget), 20)))
	if lost := lostOf(t, j, ""); len(lost) != 1 {
		t.Errorf("%d are lost beside one that is too large", len(lost))
	}
	var err error
	for i := 0; err == nil; i++ { // all of the budget is for writes
		if _, err = j.Append(journal.NewWrite{ID: key("w%d", i), Op: journal.Put, Value: strings.Repeat("z", 1<<10)}); err != nil && i < 45 {
			t.Errorf("after %d writes: %v", i, err)
		}
	}
	if !errors.Is(err, journal.ErrFull) {
		t.Error(err)
	}
	check(t, j)
}

// contract 13: a history of 1 MiB under constant conflicts: the oldest versions go, and how far back it reaches is known; what
// is pending, and the newest states, stay, and so does what is lost, as far as it has room.
func TestConstantConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		bounded := func(o *journal.Options) { o.MaxBytes, o.HistoryBytes = 1<<20, 1<<20 }
		j := open(t, fs, bounded)
		waits := put(t, j, key("waits"), "waits")
		began := nowSeconds()
		text := noise(10_000)
		const entries, rounds = 4, 60
		for round := range rounds {
			for n := range entries {
				id := key("%d", n)
				w := put(t, j, id, fmt.Sprint("mine ", round, text))
				if round%2 == 0 {
					no(t, j.Fence.Lose(w, foreign(fmt.Sprint("theirs ", round, text), w.WrittenAt+1), "later"))
				} else {
					no(t, j.Fence.KeepOverwritten(id, foreign(fmt.Sprint("earlier ", round, text), w.WrittenAt-1)))
					no(t, j.Settle(w))
				}
			}
			tick()
			if round%10 == 0 {
				no(t, j.MaintainOnce())
			}
		}
		no(t, j.MaintainOnce())
		for name, j := range map[string]*journal.Journal{"": j, "after a power cut: ": open(t, crash(fs), bounded)} {
			expect(t, j, waits.ID, journal.Value, "waits")
			for n := range entries {
				expect(t, j, key("%d", n), journal.Settled, fmt.Sprint("mine ", rounds-1, text))
			}
			if since := j.History.Since(); since <= began || since >= nowSeconds() {
				t.Errorf("%sthe history reaches back to %f, and began at %f", name, since, began)
			}
			lost := lostOf(t, j, "")
			if n := len(lost); n != 13 { // in 128 KiB
				t.Errorf("%s%d are lost", name, n)
			}
			if past := pastOf(t, j, key("0")); len(past) < 15 || len(past) > 40 {
				t.Errorf("%s%d versions are kept of the %d that there were", name, len(past), 2*rounds)
			}
			check(t, j)
		}
	})
}

// A version that is lost does not pass for the state of a time when versions that came after it were removed for room; and
// another host's state that was overwritten was never in force here.
func TestLossesInARewind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		a, b := key("a"), key("b")
		lose := put(t, j, a, "mine")
		no(t, j.Fence.Lose(lose, foreign("theirs", lose.WrittenAt+1), "later"))
		between := nowSeconds()
		tick()
		put(t, j, b, "base")
		settle(t, j, b)
		tick()
		early := nowSeconds()
		tick()
		overwrites := put(t, j, b, "mine")
		no(t, j.Fence.KeepOverwritten(overwrites.ID, foreign("theirs", early)))
		settle(t, j, b)
		put(t, j, a, "new")
		settle(t, j, a)
		put(t, j, b, "new")
		settle(t, j, b)
		was := func(id journal.ID, at float64) string {
			c, changed, err := j.History.ChangedEntry(id, at)
			no(t, err)
			if !changed {
				return "unchanged"
			}
			return fmt.Sprint(c.Then.Value, c.Gap)
		}
		if got := was(b, early); got != "base" {
			t.Errorf("b was %q", got)
		}
		if got := was(a, between); got != "mine" {
			t.Errorf("a was %q", got)
		}
		no(t, j.BoundHistory(1))
		if got := was(a, between); got != string(journal.GapForgotten) {
			t.Errorf("after the versions between were removed, a was %q", got)
		}
	})
}

// Another host's state that was overwritten is no neighbour of the writes around it.
func TestLossesHideNoGap(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	no(t, j.Fence.KeepOverwritten(put(t, j, a, "1").ID, foreign("theirs", 20)))
	put(t, j, a, "2")
	no(t, j.BoundHistory(1))
	all, err := j.History.Of(a, 2)
	no(t, err)
	if len(all) != 2 || all[0].Gap != journal.GapForgotten || all[1].Gap != "" {
		t.Errorf("%+v", all)
	}
}

// contract 17: without its copy, an entry's history tells what this journal has left upstream, but not from before another
// host's state that was seen.
func TestRememberedBeforeALoss(t *testing.T) {
	for name, test := range map[string]struct {
		ends func(*testing.T, *journal.Journal, journal.Write)
		want string
	}{
		"settled": {func(t *testing.T, j *journal.Journal, w journal.Write) { no(t, j.Settle(w)) }, "new"},
		"dropped": {func(t *testing.T, j *journal.Journal, w journal.Write) {
			no(t, j.DeadLetter(w, journal.Failure{Kind: journal.Dropped}))
		}, ""},
		"lost": {func(t *testing.T, j *journal.Journal, w journal.Write) { no(t, j.Fence.LoseToDelete(w, 1e10, "")) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := open(t, vfs.NewMem())
			a := key("a")
			no(t, j.Settle(put(t, j, a, "old")))
			w := put(t, j, a, "new")
			no(t, j.Fence.KeepOverwritten(w.ID, foreign("theirs", 20)))
			test.ends(t, j, w)
			no(t, j.EvictCopies(t.Context()))
			base, _, err := j.Fence.Remembered(a)
			no(t, err)
			if base.Known != (test.want != "") || base.Known && base.Content != journal.ContentOf(journal.Put, test.want) {
				t.Errorf("%+v", base)
			}
		})
	}
}

// contract 13, 4: a purge takes what is lost, and a recovery keeps it.
func TestLossesArePurgedAndRecovered(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	a, b := key("a"), key("b")
	for _, id := range []journal.ID{a, b} {
		no(t, j.Fence.Lose(put(t, j, id, "mine"), foreign("theirs", 20), "later"))
		w := put(t, j, id, "again")
		no(t, j.Fence.KeepOverwritten(w.ID, foreign("earlier", 10)))
		no(t, j.Settle(w))
	}
	done, err := j.Purge(t.Context(), "ns", "a", j.Stats().LastSeq)
	no(t, err)
	if got := pastOf(t, j, a); len(got) != 0 || done.Versions != 4 {
		t.Errorf("%+v, and %q is left", done, got)
	}
	want := []string{"earlier theirs lost", "again ours current", "theirs theirs shown", "mine ours lost"}
	wantPast(t, j, b, want...)
	check(t, j)
	no(t, j.Damage(journal.PendingKey(key("lost"), 1000), []byte("damaged")))
	no(t, j.Close())
	r, err := recoverAll(fs)
	no(t, err)
	if r.Healthy {
		t.Errorf("%+v", r)
	}
	j = open(t, fs)
	wantPast(t, j, b, want...)
	if n := len(lostOf(t, j, "ns")); n != 2 {
		t.Errorf("%d are lost", n)
	}
	check(t, j)
}
