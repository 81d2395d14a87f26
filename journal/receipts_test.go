package journal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// receipt returns a write's receipt, and checks its times.
func receipt(t testing.TB, j *journal.Journal, w journal.Write) journal.Receipt {
	t.Helper()
	r, err := j.Receipts.Read(t.Context(), w.Seq)
	no(t, err)
	if r.ID != w.ID || r.Seq != w.Seq || r.Op != w.Op || r.WrittenAt != w.WrittenAt {
		t.Fatalf("write %d to %s at %v, and not write %d to %s", r.Seq, r.ID, r.WrittenAt, w.Seq, w.ID)
	}
	if ended := r.State != journal.ReceiptPending; ended != (r.SettledAt != 0) || ended && r.SettledAt < r.WrittenAt {
		t.Fatalf("write %d is %s, and ended at %v", r.Seq, r.State, r.SettledAt)
	}
	return r
}

func expectReceipt(t testing.TB, j *journal.Journal, w journal.Write, state journal.ReceiptState, by journal.Write, reason string) {
	t.Helper()
	if r := receipt(t, j, w); r.State != state || r.By != by.Seq || r.Reason != reason {
		t.Errorf("write %d is %s by %d, %q; want %s by %d, %q", w.Seq, r.State, r.By, r.Reason, state, by.Seq, reason)
	}
}

func expectNoReceipt(t testing.TB, j *journal.Journal, seq uint64, want error) {
	t.Helper()
	if r, err := j.Receipts.Read(t.Context(), seq); !errors.Is(err, want) {
		t.Errorf("write %d: %s, %v; want %v", seq, r.State, err, want)
	}
}

// contract 13: every write has a receipt with its outcome, even after a power cut.
func TestReceipts(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	none := journal.Write{}
	settled := put(t, j, key("settled"), "1")
	replaced := put(t, j, key("replaced"), "1")
	gone := remove(t, j, key("replaced"))
	sent(t, j, gone)
	last := put(t, j, key("replaced"), "2")
	dead, dropped := put(t, j, key("dead"), "1"), put(t, j, key("dropped"), "1")
	beaten := put(t, j, key("beaten"), "1")
	retried := put(t, j, key("retried"), "1")
	for _, w := range []journal.Write{settled, last, dead} {
		expectReceipt(t, j, w, journal.ReceiptPending, none, "")
	}
	no(t, j.Settle(settled))
	no(t, j.Settle(gone)) // upstream has it, and a later write has replaced it here
	no(t, j.DeadLetter(dead, journal.Failure{Status: 413, Reason: "too big"}))
	no(t, j.DeadLetter(dropped, journal.Failure{Kind: journal.Dropped, Reason: "by hand"}))
	no(t, j.Fence.LoseToDelete(beaten, 20, "another host"))
	no(t, j.DeadLetter(retried, journal.Failure{Reason: "first"}))
	no(t, j.Discard(dropped.Seq))
	between := put(t, j, key("retried"), "between")
	again, err := j.Retry(retried.Seq, journal.AnyWrite)
	no(t, err)
	removed := remove(t, j, key("removed"))
	settle(t, j, key("removed"))
	for range 2 {
		expectReceipt(t, j, settled, journal.ReceiptSettled, none, "")
		expectReceipt(t, j, replaced, journal.ReceiptSuperseded, gone, "")
		expectReceipt(t, j, gone, journal.ReceiptSuperseded, last, "")
		expectReceipt(t, j, last, journal.ReceiptPending, none, "")
		expectReceipt(t, j, dead, journal.ReceiptDead, none, "too big")
		expectReceipt(t, j, dropped, journal.ReceiptDead, none, "by hand")
		expectReceipt(t, j, beaten, journal.ReceiptSuperseded, none, "another host")
		expectReceipt(t, j, retried, journal.ReceiptSuperseded, again, "")
		expectReceipt(t, j, between, journal.ReceiptSuperseded, again, "")
		expectReceipt(t, j, again, journal.ReceiptPending, none, "")
		expectReceipt(t, j, removed, journal.ReceiptSettled, none, "")
		expectNoReceipt(t, j, 0, journal.ErrNoWrite)
		expectNoReceipt(t, j, removed.Seq+1, journal.ErrNoWrite)
		no(t, j.CheckReceipts())
		j = open(t, crash(fs))
	}
}

// Receipts and pending writes have the time of this host's clock, also behind upstream's clock.
func TestReceiptsHaveThisHostsTime(t *testing.T) {
	j := open(t, vfs.NewMem())
	ahead := float64(time.Now().Add(time.Hour).Unix())
	none := journal.Write{}
	upstreamShows := func(key string) journal.ID {
		id := journal.ID{Namespace: "ns", Key: key}
		no(t, second(j.Fill(id, &journal.Observation{Value: "theirs", CreatedAt: ahead, UpdatedAt: ahead}, always)))
		return id
	}
	expectTimes := func(w journal.Write, state journal.ReceiptState, by journal.Write, reason string) {
		t.Helper()
		expectReceipt(t, j, w, state, by, reason)
		if r := receipt(t, j, w); r.WrittenAt >= ahead || r.SettledAt >= ahead {
			t.Errorf("write %d, %s, was written at %f and ended at %f by a clock that is behind %f", w.Seq, r.State, r.WrittenAt, r.SettledAt, ahead)
		}
	}

	settled, replaced := remove(t, j, upstreamShows("settled")), remove(t, j, upstreamShows("replaced"))
	expectTimes(settled, journal.ReceiptPending, none, "")
	last := put(t, j, replaced.ID, "last")
	for _, p := range j.PendingList("ns", 10) {
		if p.WrittenAt >= ahead {
			t.Errorf("%s was written at %f by a clock that is behind %f", p.ID, p.WrittenAt, ahead)
		}
	}
	no(t, j.Settle(settled))
	no(t, j.DeadLetter(last, journal.Failure{Reason: "refused"}))
	retried, err := j.Retry(last.Seq, journal.AnyWrite)
	no(t, err)
	no(t, j.DeadLetter(retried, journal.Failure{Kind: journal.Dropped, Reason: "by hand"}))
	expectTimes(settled, journal.ReceiptSettled, none, "")
	expectTimes(replaced, journal.ReceiptSuperseded, last, "")
	expectTimes(last, journal.ReceiptSuperseded, retried, "")
	expectTimes(retried, journal.ReceiptDead, none, "by hand")
}

// A pending write is found among many.
func TestReceiptAmongMany(t *testing.T) {
	j := open(t, vfs.NewMem())
	writes := make([]journal.Write, 1500)
	for i := range writes {
		writes[i] = put(t, j, journal.ID{Namespace: fmt.Sprint("ns", i%600), Key: fmt.Sprint(i)}, "v")
	}
	for i := 0; i < len(writes); i += 501 {
		expectReceipt(t, j, writes[i], journal.ReceiptPending, journal.Write{}, "")
	}
}

// Until the index knows all pending writes, a receipt is neither known nor denied.
func TestReceiptBeforeTheIndexIsRebuilt(t *testing.T) {
	fs := vfs.NewCrashableMem()
	w := put(t, open(t, fs), key("a"), "1")
	j := reopen(t, crash(fs))
	expectNoReceipt(t, j, w.Seq, journal.ErrRebuilding)
	no(t, j.Run(t.Context()))
	expectReceipt(t, j, w, journal.ReceiptPending, journal.Write{}, "")
}

// A caller that waits for the end of a write gets its receipt then. If it gives up, it gets the pending
// one.
func TestAwaitReceipt(t *testing.T) {
	for name, end := range map[string]func(j *journal.Journal, w journal.Write) error{
		"settled": func(j *journal.Journal, w journal.Write) error { return j.Settle(w) },
		"dead": func(j *journal.Journal, w journal.Write) error {
			return j.DeadLetter(w, journal.Failure{Reason: "bad"})
		},
		"superseded": func(j *journal.Journal, w journal.Write) error {
			return second(j.Append(journal.NewWrite{ID: w.ID, Op: journal.Delete}))
		},
		"pending": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := open(t, vfs.NewMem())
				w := put(t, j, key("a"), "1")
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				got := make(chan journal.Receipt)
				for range 2 {
					go func() {
						pending := receipt(t, j, w)
						if ended := j.Receipts.Await(ctx, &pending); ended != (end != nil) {
							t.Errorf("it has ended: %v", ended)
						}
						got <- receipt(t, j, w)
					}()
				}
				synctest.Wait()
				put(t, j, key("b"), "1")
				no(t, second(j.Fill(w.ID, observed("upstream's"), always))) // this changes the entry, not the write
				synctest.Wait()
				select {
				case r := <-got:
					t.Errorf("it did not wait: it is %s", r.State)
				default:
				}
				if end == nil {
					giveUp()
				} else {
					no(t, end(j, w))
				}
				for range 2 {
					if r := <-got; r.State.String() != name {
						t.Errorf("it is %s", r.State)
					}
				}
				if n := j.Watchers(); n != 0 {
					t.Errorf("%d entries are still watched", n)
				}
			})
		})
	}
}

// age lets time pass for receipts.
func age(t *testing.T, j *journal.Journal, d time.Duration) {
	t.Helper()
	const step = 10 * time.Minute
	for ; d > 0; d -= step {
		time.Sleep(min(d, step))
		no(t, j.MaintainReceipts())
	}
}

// A receipt is kept for a day after its write ended, and not much longer, even over restarts.
func TestReceiptIsKeptForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		j := open(t, fs)
		waits := put(t, j, key("waits"), "1") // pending for a day, and settled then
		old := put(t, j, key("old"), "1")
		settle(t, j, key("old"))
		age(t, j, journal.ReceiptsFor-time.Minute)
		settle(t, j, key("waits"))
		expectReceipt(t, j, old, journal.ReceiptSettled, journal.Write{}, "")
		no(t, j.Close())
		j = open(t, fs)
		age(t, j, 3*time.Hour)
		expectNoReceipt(t, j, old.Seq, journal.ErrNoReceipt)
		age(t, j, journal.ReceiptsFor-4*time.Hour)
		expectReceipt(t, j, waits, journal.ReceiptSettled, journal.Write{}, "")
		no(t, j.Close())
		j = open(t, fs)
		if kept := j.Stats().Receipts; kept != 1 {
			t.Errorf("%d receipts are kept", kept)
		}
		age(t, j, 4*time.Hour)
		expectNoReceipt(t, j, waits.Seq, journal.ErrNoReceipt)
		if kept := j.Stats().Receipts; kept != 0 {
			t.Errorf("%d receipts are kept", kept)
		}
	})
}

// The journal knows a named request for a day from its write on, over a restart, also while the write is pending.
func TestANamedRequestIsKeptForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		j := open(t, fs)
		want := journal.Request{Name: [16]byte{1}, Content: [8]byte{2}, Answer: "answer"}
		w, err := j.Append(journal.NewWrite{ID: key("a"), Op: journal.Put, Value: "1", Request: &want})
		no(t, err)
		want.Name = [16]byte{} // the record is found by it
		expect := func(made journal.Request, by uint64) {
			t.Helper()
			if r, seq, err := j.Receipts.Request([16]byte{1}); err != nil || r != made || seq != by {
				t.Errorf("write %d, %+v, %v; want %d, %+v", seq, r, err, by, made)
			}
		}
		expect(want, w.Seq)
		age(t, j, journal.ReceiptsFor/2)
		no(t, j.Close())
		j = open(t, fs)
		age(t, j, journal.ReceiptsFor/2-time.Minute)
		expect(want, w.Seq)
		age(t, j, 3*time.Hour)
		expect(journal.Request{}, 0)
	})
}

// A refused request is kept as the receipts are, and counts as one of them.
func TestARefusedRequestIsKeptForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		j := open(t, fs)
		want := journal.Request{ID: key("a"), Op: journal.Delete, Content: [8]byte{2}, Refused: 404, Answer: "absent"}
		named := want
		named.Name = [16]byte{1}
		no(t, j.Receipts.Refuse(&named, 0))
		expect := func(want journal.Request, kept int) {
			t.Helper()
			if r, _, err := j.Receipts.Request([16]byte{1}); err != nil || r != want || j.Stats().Receipts != kept {
				t.Errorf("%+v, %v; want %+v; %d receipts are kept, want %d", r, err, want, j.Stats().Receipts, kept)
			}
		}
		expect(want, 1)
		no(t, j.Close())
		j = open(t, fs)
		age(t, j, journal.ReceiptsFor-time.Minute)
		expect(want, 1)
		age(t, j, 3*time.Hour)
		expect(journal.Request{}, 0)
	})
}

// Regardless of how the clock was set while the daemon was down, a receipt ages by an hour at most at
// each start. A daemon that never runs for an hour does not keep receipts forever.
func TestReceiptsAgeOverRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		passed time.Duration // by the clock, at each restart
		starts int           // number of starts after which the receipt is gone
	}{
		"clock a year ahead":  {365 * 24 * time.Hour, 25},
		"an hour has passed":  {time.Hour, 25},
		"clock a year behind": {-365 * 24 * time.Hour, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewMem()
				j := open(t, fs)
				w := put(t, j, key("a"), "1")
				settle(t, j, key("a"))
				for start := 1; start <= 26; start++ {
					no(t, j.PeriodBegan(time.Now().Add(-c.passed)))
					no(t, j.Close())
					j = open(t, fs)
					maintain(t, j, 2*time.Second)
					if start < c.starts {
						expectReceipt(t, j, w, journal.ReceiptSettled, journal.Write{}, "")
					} else {
						expectNoReceipt(t, j, w.Seq, journal.ErrNoReceipt)
					}
				}
				age(t, j, 26*time.Hour)
				expectNoReceipt(t, j, w.Seq, journal.ErrNoReceipt)
			})
		})
	}
}

// When there are too many receipts, those of the writes that ended first are removed first, from the
// disk too. The count survives restarts.
func TestReceiptsAreBounded(t *testing.T) {
	const most = 320
	fs := vfs.NewCrashableMem()
	bounded := func(o *journal.Options) { journal.KeepReceipts(o, most) }
	j := open(t, fs, bounded)
	first := put(t, j, key("first"), "1") // it ends last
	for i := range 3 * most {
		put(t, j, key("%d", i%7), fmt.Sprint(i))
		if i%400 == 350 {
			fs = crash(fs)
			j = open(t, fs, bounded)
		}
		no(t, j.MaintainReceipts())
		if kept := j.Stats().Receipts; kept > most {
			t.Fatalf("after %d writes, %d receipts are kept", i+1, kept)
		}
	}
	settle(t, j, key("first"))
	expectReceipt(t, j, first, journal.ReceiptSettled, journal.Write{}, "")
	st := j.Stats()
	if st.Receipts < most*9/10 {
		t.Errorf("%d receipts are kept", st.Receipts)
	}
	kept := 0
	for seq := uint64(2); seq <= st.LastSeq; seq++ {
		_, err := j.Receipts.Read(t.Context(), seq)
		switch {
		case err == nil:
			kept++
		case kept > 0 || !errors.Is(err, journal.ErrNoReceipt):
			t.Fatalf("write %d, after %d that are known: %v", seq, kept, err)
		}
	}
	if want := st.Receipts - 1 + 7; kept != want { // without the first, and with the pending ones
		t.Errorf("%d receipts can be read, want %d", kept, want)
	}
}

// contract 3: a nearly full disk gets no names of refused requests.
func TestFullDiskKeepsNoRefusedRequests(t *testing.T) {
	d := &disk{FS: vfs.NewMem()}
	d.free.Store(int64(reserve + written))
	j := open(t, d, func(o *journal.Options) { o.DiskReserve = reserve })
	for i := range 10 {
		no(t, j.Receipts.Refuse(&journal.Request{ID: key("a"), Op: journal.Delete, Name: [16]byte{byte(i)}, Refused: 404}, 0))
	}
	if kept := j.Stats().Receipts; kept == 0 || kept > 2 {
		t.Errorf("%d are kept, and the disk has room for one or two", kept)
	}
}

// contract 3: on a nearly full disk, receipts are removed after the copies. A write that ends later has
// a receipt again.
func TestFullDiskGivesUpReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{FS: vfs.NewMem()}
		d.free.Store(1 << 30)
		j := open(t, d, func(o *journal.Options) { o.DiskReserve = reserve })
		long := noise(64 << 10)
		var last journal.Write
		for range 120 {
			last = put(t, j, key("a"), "1")
			no(t, j.DeadLetter(last, journal.Failure{Reason: long}))
			no(t, j.Discard(last.Seq))
		}
		no(t, j.FlushTables())
		for i := range 100 {
			no(t, second(j.Fill(key("copy%d", i), observed(long), always)))
		}
		no(t, j.FlushTables())
		expectReceipt(t, j, last, journal.ReceiptDead, journal.Write{}, long)
		d.free.Store(reserve - 1)
		time.Sleep(time.Second)
		no(t, j.MaintainOnce())
		expect(t, j, key("copy7"), journal.Unknown, "")
		expectReceipt(t, j, last, journal.ReceiptDead, journal.Write{}, long)
		maintain(t, j, 10*time.Second)
		expectNoReceipt(t, j, last.Seq, journal.ErrNoReceipt)
		if after := size(t, d); after > 5<<20 {
			t.Errorf("%d bytes are left", after)
		}
		d.free.Store(1 << 30)
		time.Sleep(time.Second)
		no(t, j.DeadLetter(put(t, j, key("a"), "1"), journal.Failure{Reason: "bad"}))
		if st := j.Stats(); st.Receipts != 1 {
			t.Errorf("%d receipts are kept", st.Receipts)
		}
	})
}

// A damaged table loses receipts and nothing else: the outcomes of their writes are unknown, but never
// wrong.
func TestDamagedReceipts(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	waits := put(t, j, key("waits"), "1")
	var ended []journal.Write
	for i := range 40 {
		w := put(t, j, key("%d", i), "1")
		no(t, j.DeadLetter(w, journal.Failure{Reason: noise(8 << 10)}))
		no(t, j.Discard(w.Seq))
		ended = append(ended, w)
	}
	no(t, j.Flip(journal.ReceiptKey(ended[3].Seq)))
	expectNoReceipt(t, j, ended[3].Seq, journal.ErrNoReceipt)
	expectReceipt(t, j, ended[4], journal.ReceiptDead, journal.Write{}, noise(8<<10))
	no(t, j.FlushTables())
	j.MarkNow()
	files := readAll(t, fs)
	name := largest(files)
	files[name] = flip(t, files[name], "r/\x00")
	damaged := diskWith(t, files)
	for range 2 {
		j = open(t, damaged, func(o *journal.Options) { *o = journal.WithoutPause(*o) })
		no(t, j.MaintainOnce())
		check(t, j)
		expectReceipt(t, j, waits, journal.ReceiptPending, journal.Write{}, "")
		for _, w := range ended {
			r, err := j.Receipts.Read(t.Context(), w.Seq)
			if known := err == nil && r.State == journal.ReceiptDead; !known && !errors.Is(err, journal.ErrNoReceipt) {
				t.Errorf("write %d: %s, %v", w.Seq, r.State, err)
			}
		}
		w := put(t, j, key("after"), "1")
		no(t, j.Settle(w))
		expectReceipt(t, j, w, journal.ReceiptSettled, journal.Write{}, "")
		no(t, j.Close())
	}
}

// A write that a recovery has brought back is pending, regardless of its receipt.
func TestReceiptOfAWriteThatIsBack(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	w := put(t, j, key("a"), "1")
	value, closer, err := j.DB().Get([]byte(journal.PendingKey(w.ID, w.Seq)))
	no(t, err)
	back := append([]byte(nil), value...)
	no(t, closer.Close())
	no(t, j.Settle(w))
	expectReceipt(t, j, w, journal.ReceiptSettled, journal.Write{}, "")
	no(t, j.Damage(journal.PendingKey(w.ID, w.Seq), back))
	no(t, j.Close())
	if _, err := recoverAll(fs); err != nil {
		t.Fatal(err)
	}
	j = open(t, fs)
	expectReceipt(t, j, w, journal.ReceiptPending, journal.Write{}, "")
	no(t, j.Settle(w))
	expectReceipt(t, j, w, journal.ReceiptSettled, journal.Write{}, "")
}
