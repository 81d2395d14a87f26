package flush_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// wantReceipt checks the receipt of a write.
func (r *rig) wantReceipt(seq uint64, state journal.ReceiptState, by uint64, reason string) {
	r.t.Helper()
	got, err := r.journal.Receipts.Read(r.t.Context(), seq)
	if err != nil || got.State != state || got.By != by || got.Reason != reason {
		r.t.Errorf("write %d is %s by %d, %q, %v; want %s by %d, %q", seq, got.State, got.By, got.Reason, err, state, by, reason)
	}
}

// The flusher does not send a write that the namespace's size forbids. The journal accepts a write that
// upstream has accepted, even if others have filled the namespace meanwhile.
func TestWriteThroughToAFullNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWithin(t, newFake(t), vfs.NewMem(), nil, func(o *journal.Options) {
			o.Sizes = journal.NewSizes(journal.SizesOptions{Limit: func(string) int64 { return 10 }, Logger: slog.New(slog.DiscardHandler)})
		})
		if got := r.putThrough(key("a"), "12345"); got.err != nil {
			t.Fatal(got.err)
		}
		asked := len(r.requests(anything))
		got := r.putThrough(key("b"), "123456")
		if _, full := errors.AsType[*journal.NamespaceFullError](got.err); !full || len(r.requests(anything)) != asked {
			t.Errorf("%v, and upstream was asked %d times", got.err, len(r.requests(anything))-asked)
		}
		r.set(func(f *fake) { f.latency = time.Second })
		under := r.beginThrough(newPut(key("b"), "12345"))
		synctest.Wait()
		r.put(key("c"), "12345")
		if got := <-under; got.err != nil || !got.settled || got.written.Seq == 0 {
			t.Errorf("%+v", got)
		}
		r.wantState(key("b"), "12345", false)
	})
}

// Upstream has accepted a write that the journal no longer has room for. The write is acknowledged
// without a number, and the entry's pending write is dropped: upstream has a later state.
func TestWriteThroughWithoutRoomInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWithin(t, newFake(t), vfs.NewMem(), nil, func(o *journal.Options) { o.MaxBytes = 20_000 })
		r.linger.Store(int64(time.Hour))
		old := r.put(key("k"), "old")
		r.set(func(f *fake) { f.latency = time.Second })
		under := r.beginThrough(newPut(key("k"), strings.Repeat("x", 8000)))
		synctest.Wait()
		filling := r.put(key("other"), strings.Repeat("x", 15_000))
		if got := <-under; got.err != nil || !got.settled || got.written.Seq != 0 {
			t.Errorf("%+v, want it without a number", got)
		}
		r.wantHeld(key("k"), strings.Repeat("x", 8000))
		r.wantState(key("k"), "", false)
		r.wantReceipt(old.Seq, journal.ReceiptSuperseded, 0, "upstream holds a later write, for which the journal had no room")
		asked := len(r.requests(anything))
		if got := r.putThrough(key("b"), strings.Repeat("x", 8000)); !errors.Is(got.err, journal.ErrFull) || len(r.requests(anything)) != asked {
			t.Errorf("%+v, and upstream was asked %d times", got, len(r.requests(anything))-asked)
		}
		r.wantReceipt(filling.Seq, journal.ReceiptPending, 0, "")
		if n := r.pending(); n != 1 {
			t.Errorf("%d are pending, want the other entry", n)
		}
		if doubts, err := r.journal.InDoubt(); err != nil || len(doubts) > 0 {
			t.Errorf("in doubt: %v, %v", doubts, err)
		}
	})
}

// Every acknowledged write has a receipt, and no other has one.
func TestReceiptsOfWritesThrough(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.linger.Store(int64(time.Hour))
		old := r.put(key("k"), "old")
		got := r.putThrough(key("k"), "new")
		r.wantReceipt(old.Seq, journal.ReceiptSuperseded, got.written.Seq, "")
		r.wantReceipt(got.written.Seq, journal.ReceiptSettled, 0, "")
		kept := r.put(key("k"), "kept")
		for name, answer := range map[string]reply{"refused": detail(400), "fails": detail(500), "throttled": detail(429), "cut": {cut: true}} {
			r.set(func(f *fake) { f.answer = func(call) reply { return answer } })
			if got := r.putThrough(key(name), "v"); got.err == nil {
				t.Errorf("%s: %+v", name, got)
			}
			time.Sleep(lateWindow + time.Minute)
		}
		if n := r.journal.Stats().Receipts; n != 2 {
			t.Errorf("%d receipts, want 2", n)
		}
		r.wantReceipt(kept.Seq, journal.ReceiptPending, 0, "")
		r.set(func(f *fake) { f.answer = nil })
		if _, err := r.flusher.Drop(t.Context(), key("k"), 0); err != nil {
			t.Fatal(err)
		}
		r.wantReceipt(kept.Seq, journal.ReceiptDead, 0, "dropped by hand")
		again, err := r.journal.Retry(kept.Seq, journal.AnyWrite)
		if err != nil {
			t.Fatal(err)
		}
		r.wantReceipt(kept.Seq, journal.ReceiptSuperseded, again.Seq, "")
		r.settleWithin(2 * time.Hour)
		r.wantReceipt(again.Seq, journal.ReceiptSettled, 0, "")
	})
}
