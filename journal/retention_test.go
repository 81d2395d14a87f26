package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

func versions(t *testing.T, j *journal.Journal, id journal.ID, want ...uint64) {
	t.Helper()
	got, err := j.Versions(id)
	no(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%s has the versions %v, want %v", id, got, want)
	}
}

// Every write is a version, with its value, and stays one after it has been replaced, settled, refused or
// deleted. An answer of upstream's is a version if it shows something new.
func TestVersions(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a, b := key("a"), key("b")
	put(t, j, a, "1")
	put(t, j, a, "2")
	settle(t, j, a)
	no(t, j.DeadLetter(put(t, j, a, "3"), journal.Failure{Reason: "no"}))
	remove(t, j, a)
	settle(t, j, a)
	for _, value := range []string{"theirs", "theirs", "newer"} {
		no(t, second(j.Fill(b, observed(value), always)))
	}
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		versions(t, j, a, 1, 2, 3, 4)
		versions(t, j, b, 5, 6)
		expect(t, j, b, journal.Settled, "newer")
	}
}

// Beyond its budget, the history loses its oldest versions. Those of settled copies and of pending writes
// stay.
func TestHistoryIsBounded(t *testing.T) {
	j := open(t, vfs.NewMem())
	value := noise(1000)
	old, waits := key("old"), key("waits")
	put(t, j, old, "old")
	settle(t, j, old)
	put(t, j, waits, "earlier") // 2
	put(t, j, waits, "waiting")
	for range 100 { // 4 to 103
		put(t, j, key("a"), value)
	}
	for range 100 { // 104 to 203
		put(t, j, key("b"), value)
	}
	settle(t, j, key("a"))
	settle(t, j, key("b"))
	no(t, j.BoundHistory(150<<10)) // 60 % of it, and a record has 25 bytes more
	versions(t, j, old, 1)
	versions(t, j, waits, 3)
	versions(t, j, key("a"), 103)
	kept, err := j.Versions(key("b"))
	no(t, err)
	if n := len(kept); n < 80 || n > 90 || kept[n-1] != 203 || kept[0] != uint64(204-n) {
		t.Errorf("the versions of b are %v", kept)
	}
	expect(t, j, old, journal.Settled, "old")
	expect(t, j, waits, journal.Value, "waiting")
	expect(t, j, key("a"), journal.Settled, value)
	check(t, j)
}

// Maintain bounds the history, and frees its room.
func TestMaintainBoundsTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{FS: vfs.NewMem()}
		d.free.Store(1 << 30)
		j := open(t, d, func(o *journal.Options) { o.DiskReserve, o.HistoryBytes = reserve, 4<<20 })
		value := noise(100 << 10)
		for i := range 300 {
			no(t, j.Settle(put(t, j, key("a"), fmt.Sprint(i)+value)))
		}
		maintain(t, j, time.Minute)
		kept, err := j.Versions(key("a"))
		no(t, err)
		if n := len(kept); n < 20 || n > 42 {
			t.Errorf("%d versions of 100 KiB are kept, with room for 41", n)
		}
		if n := size(t, d); n > 12<<20 {
			t.Errorf("the journal takes %d bytes", n)
		}
	})
}

// An answer that shows the known value again, or a write that settles late, brings its version back if a
// pass has removed it meanwhile.
func TestVersionIsWrittenAgain(t *testing.T) {
	j := open(t, vfs.NewMem())
	late := put(t, j, key("late"), "1")
	no(t, j.DeadLetter(late, journal.Failure{Kind: journal.Dropped}))
	no(t, j.BoundHistory(1))
	versions(t, j, late.ID)
	no(t, j.Settle(late))
	expect(t, j, late.ID, journal.Settled, "1")
	check(t, j)
	no(t, j.BoundHistory(1))
	o := observed("1")
	no(t, second(j.Fill(late.ID, o, always)))
	expect(t, j, late.ID, journal.Settled, "1")
	check(t, j)
}

// contract 4: a start notices that the value of a pending write is missing, and a recovery counts it.
func TestStartNoticesALostValue(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	put(t, j, key("a"), "1")
	w := put(t, j, key("b"), "2")
	no(t, j.Damage(journal.VersionKey(w.ID, w.Seq), nil))
	no(t, j.Close())
	_, err := journal.Open(journal.Options{Dir: dir, FS: fs})
	mustBeCorrupt(t, err)
	r, err := recoverAll(fs)
	no(t, err)
	if r.Healthy || r.Salvaged.Pending != 1 || r.Missing.Pending != 1 || !slices.Equal(r.Missing.Records, []string{"pending write 2 to ns/b"}) {
		t.Errorf("%+v", r)
	}
	j = open(t, fs)
	expect(t, j, key("a"), journal.Value, "1")
	wantNoValue(t, j, key("b"))
}

// The history tells what became of each version, and gives its value.
func TestHistory(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a := key("a")
	no(t, second(j.Fill(a, observed("theirs"), always)))                  // 1
	put(t, j, a, "2")                                                     // superseded
	no(t, j.DeadLetter(put(t, j, a, "3"), journal.Failure{Reason: "no"})) // refused
	put(t, j, a, "4")                                                     // settled
	settle(t, j, a)
	remove(t, j, a) // 5, settled
	settle(t, j, a)
	put(t, j, a, "6")
	settle(t, j, a)
	put(t, j, a, "7")
	put(t, j, key("b"), "8")
	want := []string{
		"7 put pending", "6 put current", "5 delete settled", "4 put settled", "3 put dead", "2 put superseded", "1 put shown",
	}
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		all, err := j.History.Of(a, 100)
		no(t, err)
		var got []string
		for _, p := range all {
			got = append(got, fmt.Sprint(p.Seq, " ", p.Op, " ", p.State))
			value, odd := map[uint64]string{1: "theirs", 5: ""}[p.Seq]
			if !odd {
				value = fmt.Sprint(p.Seq)
			}
			if p.Value != value || p.WrittenAt == 0 || p.ID != a {
				t.Errorf("%+v", p)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if some, err := j.History.Of(a, 2); err != nil || len(some) != 2 || some[1].Seq != 6 {
			t.Errorf("the newest two are %+v, %v", some, err)
		}
	}
}

// The earlier versions of an entry that is always pending do not pile up: neither upstream's outage nor a
// full disk keeps them.
func TestVersionsOfAPendingEntryDoNotPileUp(t *testing.T) {
	for name, remove := range map[string]func(*journal.Journal) error{
		"history":   func(j *journal.Journal) error { return j.BoundHistory(1) },
		"full disk": (*journal.Journal).DropCopies,
	} {
		t.Run(name, func(t *testing.T) {
			j := open(t, vfs.NewMem())
			id := key("a")
			first := put(t, j, id, "1")
			for i := range 100 {
				put(t, j, id, fmt.Sprint(i))
			}
			no(t, remove(j))
			versions(t, j, id, 101)
			expect(t, j, id, journal.Value, "99")
			no(t, j.Settle(first)) // its answer comes late
			no(t, remove(j))
			versions(t, j, id, 1, 101)
			check(t, j)
			settle(t, j, id)
			expect(t, j, id, journal.Settled, "99")
			check(t, j)
		})
	}
}

// A copy that stays because of a pending write keeps its version, also if the write is dead-lettered
// while the copies are given up.
func TestWriteIsRefusedWhileCopiesAreGivenUp(t *testing.T) {
	j := open(t, vfs.NewMem())
	id := key("a")
	no(t, second(j.Fill(id, observed("theirs"), always)))
	w := put(t, j, id, "mine")
	no(t, j.DropCopiesWhile(func() { no(t, j.DeadLetter(w, journal.Failure{Reason: "no"})) }))
	check(t, j)
	expect(t, j, id, journal.Settled, "theirs")
}

// Before the index is complete, no version of a pending write is taken for an old one.
func TestVersionsStayUntilTheIndexIsComplete(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	put(t, j, key("a"), "1")
	no(t, j.Close())
	j = reopen(t, fs)
	no(t, j.BoundHistory(1))
	no(t, j.DropCopies())
	expect(t, j, key("a"), journal.Value, "1")
}

// A reader who has found a pending write gets nothing of a newer one that has settled meanwhile.
func TestNewerWriteSettlesDuringALookup(t *testing.T) {
	j := open(t, vfs.NewMem())
	for _, newest := range []string{"", "newest"} {
		id := key("before %q", newest)
		old := put(t, j, id, "old")
		state, err := j.StateAfter(id, func() {
			put(t, j, id, "new")
			settle(t, j, id)
			if newest != "" {
				put(t, j, id, newest)
			}
		})
		if err == nil && state.UpdatedAt != old.UpdatedAt {
			t.Errorf("%+v of the write of %v", state, old.UpdatedAt)
		}
	}
}

// What becomes history without a write counts, too: the versions of copies that are removed.
func TestVersionsOfRemovedCopiesAreHistory(t *testing.T) {
	for name, remove := range map[string]func(*testing.T, *journal.Journal, journal.ID){
		"deleted": func(t *testing.T, j *journal.Journal, id journal.ID) { no(t, j.Settle(remove(t, j, id))) },
		"absent":  func(t *testing.T, j *journal.Journal, id journal.ID) { no(t, second(j.Fill(id, nil, always))) },
		"shrunk": func(t *testing.T, j *journal.Journal, id journal.ID) {
			no(t, second(j.Fill(id, observed("x"), always)))
		},
		"evicted": func(t *testing.T, j *journal.Journal, _ journal.ID) { no(t, j.Evict(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{FS: vfs.NewMem()}
				d.free.Store(1 << 30)
				j := open(t, d, func(o *journal.Options) { o.DiskReserve, o.HistoryBytes, o.MaxBytes = reserve, 4<<20, 16<<20 })
				value := noise(100 << 10)
				for i := range 150 {
					no(t, j.Settle(put(t, j, key("%d", i), fmt.Sprint(i)+value)))
				}
				maintain(t, j, time.Minute)
				for i := range 150 {
					remove(t, j, key("%d", i))
				}
				maintain(t, j, time.Minute)
				if n := size(t, d); n > 8<<20 {
					t.Errorf("the journal takes %d bytes", n)
				}
			})
		})
	}
}

// Versions are removed while entries are written, settled, filled, refused and read: no copy and no
// pending write ever lacks its value.
func TestVersionsAreRemovedUnderLoad(t *testing.T) {
	j := open(t, vfs.NewMem())
	done := make(chan struct{})
	removed := make(chan struct{})
	go func() {
		defer close(removed)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if i%3 == 0 {
				no(t, j.DropCopies())
			} else {
				no(t, j.BoundHistory(1))
			}
		}
	}()
	together(8, func(g int) {
		id := key("%d", g/2) // two callers for each entry
		for i := range 200 {
			w := put(t, j, id, fmt.Sprint(g, " ", i))
			if state := lookup(t, j, id); state.Kind == journal.Value && state.Value == "" {
				t.Errorf("%+v", state)
			}
			sent, ok, err := j.Newest(id)
			if no(t, err); !ok {
				continue
			}
			switch (i + g) % 5 {
			case 0:
				no(t, j.DeadLetter(sent, journal.Failure{Kind: journal.Dropped}))
			case 1:
				no(t, j.Settle(w)) // it may have been superseded, and its version removed
			case 2:
				if _, err := j.Fill(id, observed("theirs"), always); !errors.Is(err, journal.ErrChanged) {
					no(t, err)
				}
			case 3:
				no(t, j.Fence.Lose(sent, *observed("later"), "lost"))
			default:
				no(t, j.Settle(sent))
			}
			lookup(t, j, id)
		}
	})
	close(done)
	<-removed
	check(t, j)
	if n := j.Stats().DamagedFiles; n != 0 {
		t.Errorf("%d files count as damaged", n)
	}
}

// The journal knows how far back its history reaches, also after a crash.
func TestHistorySince(t *testing.T) {
	for name, remove := range map[string]func(*journal.Journal) error{
		"history":   func(j *journal.Journal) error { return j.BoundHistory(1) },
		"full disk": (*journal.Journal).DropCopies,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				j := open(t, fs)
				if at := j.History.Since(); at != 0 {
					t.Errorf("it reaches back to %f", at)
				}
				w := put(t, j, key("a"), "1")
				time.Sleep(time.Hour)
				put(t, j, key("a"), "2")
				no(t, second(j.Fill(key("b"), &journal.Observation{Value: "ahead", UpdatedAt: 1e12}, always)))
				no(t, remove(j))
				for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
					if got := j.History.Since(); micros(got) != micros(w.WrittenAt) && name == "history" || got > nowSeconds() {
						t.Errorf("it reaches back to %f, and version 1 is of %f", got, w.WrittenAt)
					}
				}
			})
		})
	}
}

// contract 4: a damaged record of how far back the history reaches counts as missing, and a recovery names
// it.
func TestDamagedHistorySince(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	put(t, j, key("a"), "1")
	put(t, j, key("a"), "2")
	no(t, j.BoundHistory(1))
	if j.History.Since() == 0 {
		t.Fatal("nothing was removed")
	}
	no(t, j.Flip("m/retention"))
	no(t, j.Close())
	j = open(t, fs)
	if at := j.History.Since(); at != 0 {
		t.Errorf("it reaches back to %f", at)
	}
	no(t, j.Close())
	r, err := recoverAll(fs)
	no(t, err)
	if r.Healthy || !r.Complete() {
		t.Errorf("the report is %+v", r)
	}
	j = open(t, fs)
	if at := j.History.Since(); at != float64(recoveredAt.Unix()) {
		t.Errorf("after the recovery, it reaches back to %f", at)
	}
	expect(t, j, key("a"), journal.Value, "2")
	check(t, j)
}

// A damaged version is left out, and the others are listed. A dead letter tells what became of its write
// also without a receipt.
func TestHistoryWithDamage(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	put(t, j, a, "1")
	two := put(t, j, a, "2")
	no(t, j.DeadLetter(put(t, j, a, "3"), journal.Failure{Reason: "no"}))
	put(t, j, a, "4")
	no(t, j.GiveUpReceipts())
	no(t, j.Flip(journal.VersionKey(a, two.Seq)))
	all, err := j.History.Of(a, 100)
	no(t, err)
	var got []string
	for _, p := range all {
		got = append(got, fmt.Sprint(p.Seq, " ", p.State))
	}
	if want := []string{"4 pending", "3 dead", "1 superseded"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A version says if the one that it has replaced was removed for room or is damaged, while an older one stays: the
// settled copy's outlives its neighbours.
func TestHistoryWithGaps(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a, b := key("a"), key("b")
	for _, id := range []journal.ID{a, b} {
		put(t, j, id, "settled")
		settle(t, j, id)
	}
	put(t, j, a, "removed") // 3
	put(t, j, a, "4")
	damaged := put(t, j, b, "damaged") // 5
	settle(t, j, b)
	put(t, j, b, "6")
	gaps := func(j *journal.Journal, id journal.ID, limit int, want ...string) {
		t.Helper()
		all, err := j.History.Of(id, limit)
		no(t, err)
		var got []string
		for _, p := range all {
			got = append(got, fmt.Sprint(p.Seq, string(p.Gap)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	gaps(j, a, 100, "4", "3", "1")
	gaps(j, a, 1, "4")
	no(t, j.BoundHistory(1))
	no(t, j.Flip(journal.VersionKey(b, damaged.Seq)))
	settle(t, j, a)
	put(t, j, a, "7")
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		gaps(j, a, 100, "7", "4forgotten", "1")
		gaps(j, a, 2, "7", "4forgotten")
		gaps(j, b, 100, "6damaged")
	}
	no(t, j.BoundHistory(1))
	gaps(j, a, 100, "7", "4forgotten")
}
