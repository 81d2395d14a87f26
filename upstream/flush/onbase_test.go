package flush_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
)

// putOver journals a value whose condition was judged by what this host knows.
func (v *versioned) putOver(value string) journal.Write {
	v.t.Helper()
	base, err := v.journal.Fence.Base(key("k"))
	if err != nil {
		v.t.Fatal(err)
	}
	return v.append(journal.NewWrite{ID: key("k"), Op: journal.Put, Value: value, ListBytes: len(value), Over: &base})
}

// wantLost checks that another host's state stays, and that the write left nothing but its version and its receipt.
func (v *versioned) wantLost(w journal.Write, got outcome, was upstream.Version) {
	v.t.Helper()
	if got.settled || got.err != nil || v.seat.now(w.ID) != was {
		v.t.Errorf("%+v, and upstream has %+v", got, v.seat.now(w.ID))
	}
	v.wantReceipt(w.Seq, journal.ReceiptSuperseded, 0, "another host has written later")
	v.wantLetters()
	if n := v.pending(); n != 0 {
		v.t.Errorf("%d are pending", n)
	}
}

// contract 5: a write whose condition has to hold upstream replaces only the state that met it: compare-and-swap
// between hosts.
func TestConditionsReachAcrossHosts(t *testing.T) {
	for heard, lag := range map[string]time.Duration{"heard": 0, "not heard": time.Hour} {
		for name, row := range map[string]struct {
			before func(*versioned)
			loses  bool
		}{
			"nothing there":   {func(*versioned) {}, false},
			"this host's":     {func(v *versioned) { v.settledPut(key("k"), "1") }, false},
			"a deleted entry": {func(v *versioned) { v.settledPut(key("k"), "1"); v.del(key("k")); v.settleWithin(time.Second) }, false},
			"another host's":  {func(v *versioned) { v.seat.foreign(key("k"), journal.Put, "theirs", time.Now()) }, true},
			"another host since": {func(v *versioned) {
				v.settledPut(key("k"), "1")
				v.seat.foreign(key("k"), journal.Put, "theirs", time.Now())
			}, true},
			"deleted since": {func(v *versioned) {
				v.settledPut(key("k"), "1")
				v.seat.foreign(key("k"), journal.Delete, "", time.Now())
			}, true},
			"read here": {func(v *versioned) {
				v.seat.foreign(key("k"), journal.Put, "theirs", time.Now())
				v.read()
			}, false},
		} {
			t.Run(name+", "+heard, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := newVersioned(t, &seat{bucket: newBucket(t), host: "a", lag: lag}, vfs.NewMem())
					row.before(v)
					was := v.seat.now(key("k"))
					time.Sleep(time.Millisecond)
					w := v.putOver("mine")
					got := v.confirm(w, true)
					if row.loses {
						v.wantLost(w, got, was)
						return
					}
					if !got.settled || got.err != nil {
						t.Errorf("%+v", got)
					}
					v.wantNow(key("k"), "mine", false)
					v.wantLetters()
				})
			})
		}
	}
}

// read has a reader fetch the entry.
func (v *versioned) read() {
	v.t.Helper()
	seen, err := v.seat.Get(v.t.Context(), key("k"))
	if err != nil {
		v.t.Fatal(err)
	}
	if _, err := v.journal.Fill(key("k"), seen.Observation(), func() bool { return true }); err != nil && !errors.Is(err, journal.ErrChanged) {
		v.t.Error(err)
	}
}

// contract 5: a condition is about the state that it was judged by, and not about one that has become known since.
func TestConditionsAreOfTheStateTheyWereJudgedBy(t *testing.T) {
	for name, theirs := range map[string]journal.Op{"a put": journal.Put, "a delete": journal.Delete} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &seat{bucket: newBucket(t), host: "a", lag: time.Hour}
				before := &beforeKnown{Engine: s, run: func() {}}
				v := newVersioned(t, s, vfs.NewMem(), func(o *flush.Options) { o.Engine = before })
				v.settledPut(key("k"), "1")
				time.Sleep(time.Minute)
				before.run = func() {
					s.foreign(key("k"), theirs, valueOf(theirs, "theirs"), time.Now())
					v.read()
					before.run = func() {}
				}
				w := v.putOver("mine")
				got := v.confirm(w, true)
				v.wantLost(w, got, s.now(key("k")))
				v.wantNow(key("k"), valueOf(theirs, "theirs"), theirs == journal.Delete)
			})
		})
	}
}

// beforeKnown is an engine that runs a function before Known answers.
type beforeKnown struct {
	upstream.Engine
	run func()
}

func (b *beforeKnown) Known(id journal.ID) (upstream.Version, bool) {
	b.run()
	return b.Engine.Known(id)
}

// contract 5: of two writes with the same condition on two hosts, one is carried out.
func TestOneOfTwoHostsSwaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		outcomes := make(chan outcome)
		for _, host := range []string{"a", "b"} {
			v := newVersioned(t, &seat{bucket: b, host: host}, vfs.NewMem())
			go func() { outcomes <- v.confirm(v.putOver("by "+host), true) }()
		}
		first, second := <-outcomes, <-outcomes
		if first.settled == second.settled || first.err != nil || second.err != nil {
			t.Errorf("%+v and %+v", first, second)
		}
	})
}

// contract 5, 14: the condition is durable: after a crash and an outage, the write goes by it still.
func TestAConditionOutlivesTheProcess(t *testing.T) {
	for name, theirs := range map[string]bool{"nobody else has written": false, "another host has": true} {
		t.Run(name, func(t *testing.T) {
			exact(t, func(t *testing.T, v *versioned) {
				v.settledPut(key("k"), "base")
				v.seat.set(func(b *bucket) { b.mishap = func(string, upstream.Proposal) mishap { return vanished } })
				w := v.putOver("mine")
				v.confirm(w, true)
				if theirs {
					v.seat.foreign(key("k"), journal.Put, "theirs", time.Now())
				}
				v.seat.set(func(b *bucket) { b.mishap = nil })
				v = v.reopened()
				v.settleWithin(time.Minute)
				if theirs {
					v.wantLost(w, outcome{}, v.seat.now(key("k")))
					v.wantNow(key("k"), "theirs", false)
					return
				}
				v.wantNow(key("k"), "mine", false)
			})
		})
	}
}

// The answer of a conditional write got lost: upstream holds it, and the next attempt finds that.
func TestAConditionalWriteWhoseAnswerIsLost(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		v.settledPut(key("k"), "base")
		v.seat.set(func(b *bucket) {
			b.mishap = func(string, upstream.Proposal) mishap { b.mishap = nil; return lost }
		})
		w := v.putOver("mine")
		v.settleWithin(time.Minute)
		v.wantReceipt(w.Seq, journal.ReceiptSettled, 0, "")
		v.wantNow(key("k"), "mine", false)
		v.wantLetters()
	})
}
