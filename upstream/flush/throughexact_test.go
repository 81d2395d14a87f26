package flush_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
)

// throughPut writes a value through, with or without conditions.
func (v *versioned) throughPut(value string, ready func() (func(uint64) bool, error)) (journal.Write, bool, error) {
	w := journal.NewWrite{ID: key("k"), Op: journal.Put, Value: value, ListBytes: len(value)}
	return v.flusher.WriteThrough(v.t.Context(), w, ready)
}

func unconditional() (func(uint64) bool, error) { return nil, nil }

// conditional returns a condition that holds while nothing newer than now is pending.
func (v *versioned) conditional() (func(uint64) bool, error) {
	w, _, err := v.journal.Newest(key("k"))
	return func(newest uint64) bool { return newest == w.Seq }, err
}

// A write through is journaled as the version that it became upstream. It replaces what is there,
// including this host's pending write, and keeps another host's version that was not known here.
func TestWritesThroughAVersion(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		for i, before := range []func(){
			func() {},
			func() { v.settledPut(key("k"), "settled") },
			func() { v.put(key("k"), "pending") },
			func() { v.seat.foreign(key("k"), journal.Put, "theirs", time.Now().Add(time.Hour)) },
			func() { v.seat.foreign(key("k"), journal.Delete, "", time.Now().Add(2*time.Hour)) },
		} {
			before()
			w, settled, err := v.throughPut("through", unconditional)
			now := v.seat.now(key("k"))
			if err != nil || !settled || w.UpdatedAt != now.WrittenAt || now.Value != "through" || now.Writer.Seq != 0 {
				t.Errorf("%d: it is %+v (%v), %v, and upstream has %+v", i, w, settled, err, now)
			}
			state, err := v.journal.Lookup(key("k"))
			if err != nil || state.Kind != journal.Settled || state.Value != "through" || state.UpdatedAt != now.WrittenAt || state.CreatedAt != now.CreatedAt {
				t.Errorf("%d: the copy is %+v, %v", i, state, err)
			}
		}
		v.settledPut(key("k"), "after") // the host's own version without a number is not another host's
		v.wantLetters(letter{"superseded", true, journal.Put, "theirs", "through"}, letter{"superseded", true, journal.Delete, "", "through"})
	})
}

// contract 17: a write through that takes the place of one from before the daemon's start keeps what that one would
// have kept.
func TestAWriteThroughMeetsWhatItsPredecessorWouldHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seat{bucket: newBucket(t), host: "a"}
		r := &reticent{Engine: s}
		r.says.Store(true)
		fs, engine := vfs.NewMem(), func(o *flush.Options) { o.Engine = r }
		v := newVersioned(t, s, fs, engine)
		time.Sleep(time.Minute)
		s.foreign(key("k"), journal.Put, "theirs", time.Now())
		time.Sleep(time.Minute)
		r.says.Store(false)
		v.put(key("k"), "older")
		time.Sleep(time.Minute)
		v.stop()
		v = newVersioned(t, s, fs, engine)
		time.Sleep(time.Minute)
		r.says.Store(true)
		if _, settled, err := v.throughPut("through", unconditional); err != nil || !settled {
			t.Errorf("settled: %v, %v", settled, err)
		}
		v.wantNow(key("k"), "through", false)
		v.wantLetters(letter{"superseded", true, journal.Put, "theirs", "through"})
	})
}

// reticent is an engine that says what upstream holds only at times.
type reticent struct {
	upstream.Engine
	says atomic.Bool
}

func (r *reticent) Known(journal.ID) (upstream.Version, bool) { return upstream.Version{}, false }

func (r *reticent) Get(ctx context.Context, id journal.ID) (upstream.Version, error) {
	if !r.says.Load() {
		return upstream.Version{}, &upstream.Error{Verdict: upstream.Transient, Answered: true, Reason: "not now"}
	}
	return r.Engine.Get(ctx, id)
}

// A write with conditions only replaces the version that they were judged by: compare-and-swap between
// hosts.
func TestConditionsReachAcrossHosts(t *testing.T) {
	for heard, lag := range map[string]time.Duration{"heard": 0, "not heard": time.Hour} {
		for name, row := range map[string]struct {
			before func(*versioned)
			fails  bool
		}{
			"nothing there":   {func(*versioned) {}, false},
			"this host's":     {func(v *versioned) { v.settledPut(key("k"), "1") }, false},
			"a pending write": {func(v *versioned) { v.settledPut(key("k"), "1"); v.put(key("k"), "2") }, false},
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
				seen, _ := v.seat.Get(v.t.Context(), key("k"))
				if _, err := v.journal.Fill(key("k"), seen.Observation(), func() bool { return true }); err != nil {
					v.t.Error(err)
				}
			}, false},
		} {
			t.Run(name+", "+heard, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := newVersioned(t, &seat{bucket: newBucket(t), host: "a", lag: lag}, vfs.NewMem())
					row.before(v)
					was := v.seat.now(key("k"))
					time.Sleep(time.Millisecond)
					_, settled, err := v.throughPut("through", v.conditional)
					if row.fails {
						if !errors.Is(err, journal.ErrChanged) || v.seat.now(key("k")) != was {
							t.Errorf("the error is %v, and upstream has %+v", err, v.seat.now(key("k")))
						}
						return
					}
					if err != nil || !settled {
						t.Errorf("settled: %v, %v", settled, err)
					}
					v.wantNow(key("k"), "through", false)
					v.settleWithin(time.Minute)
					v.wantLetters()
				})
			})
		}
	}
}

// The conditions apply to the state that they were judged by, not to a state that a reader has fetched
// since.
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
					seen, err := s.Get(t.Context(), key("k"))
					if _, failed := v.journal.Fill(key("k"), seen.Observation(), func() bool { return true }); err != nil || failed != nil {
						t.Error(err, failed)
					}
					before.run = func() {}
				}
				if _, _, err := v.throughPut("through", v.conditional); !errors.Is(err, journal.ErrChanged) {
					t.Errorf("the error is %v", err)
				}
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

// If the entry changes while the conditions are judged, they are judged again.
func TestConditionsAreJudgedAnew(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		v.settledPut(key("k"), "1")
		judged := 0
		_, settled, err := v.throughPut("through", func() (func(uint64) bool, error) {
			if judged++; judged == 1 {
				v.seat.foreign(key("k"), journal.Put, "theirs", time.Now().Add(time.Second))
				seen, _ := v.seat.Get(t.Context(), key("k"))
				if _, err := v.journal.Fill(key("k"), seen.Observation(), func() bool { return true }); err != nil {
					t.Error(err)
				}
			}
			return v.conditional()
		})
		if err != nil || !settled || judged != 2 {
			t.Errorf("it was judged %d times, settled: %t, %v", judged, settled, err)
		}
		v.wantNow(key("k"), "through", false)
	})
}

// Of two writes with the same conditions on two hosts, one is carried out.
func TestOneOfTwoHostsSwaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		hosts := []*versioned{
			newVersioned(t, &seat{bucket: b, host: "a"}, vfs.NewMem()), newVersioned(t, &seat{bucket: b, host: "b"}, vfs.NewMem()),
		}
		errs := make(chan error)
		for _, v := range hosts {
			go func() {
				_, _, err := v.throughPut("by "+v.fenced, v.conditional)
				errs <- err
			}()
		}
		first, second := <-errs, <-errs
		if (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), journal.ErrChanged) {
			t.Errorf("the errors are %v and %v", first, second)
		}
	})
}

// Deleting an entry that upstream does not hold changes nothing there.
func TestDeletesThroughAVersion(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		remove := func() error {
			_, _, err := v.flusher.WriteThrough(t.Context(), journal.NewWrite{ID: key("k"), Op: journal.Delete}, unconditional)
			return err
		}
		if err := remove(); !errors.Is(err, journal.ErrAbsent) {
			t.Errorf("of what was never there: %v", err)
		}
		v.settledPut(key("k"), "1")
		if err := remove(); err != nil {
			t.Error(err)
		}
		v.wantNow(key("k"), "", true)
		if err := remove(); !errors.Is(err, journal.ErrAbsent) {
			t.Errorf("of what is deleted: %v", err)
		}
		v.put(key("k"), "2") // pending only
		if err := remove(); err != nil {
			t.Error(err)
		}
		v.wantNow(key("k"), "", true)
		v.wantKnown(key("k"), "", journal.Unknown)
		if n := v.swapped(); n != 3 {
			t.Errorf("there were %d swaps", n)
		}
	})
}

// A newer write that comes during a write through goes upstream next. The write through has still
// succeeded, unless its caller set conditions that no longer hold.
func TestANewerWriteDuringAWriteThrough(t *testing.T) {
	for name, conditional := range map[string]bool{"without conditions": false, "with conditions": true} {
		t.Run(name, func(t *testing.T) {
			exact(t, func(t *testing.T, v *versioned) {
				ready := unconditional
				if conditional {
					ready = v.conditional
				}
				v.seat.set(func(b *bucket) {
					b.mishap = func(string, upstream.Proposal) mishap {
						b.mishap = nil
						go v.put(key("k"), "newer")
						return fine
					}
				})
				w, settled, err := v.throughPut("through", ready)
				if conditional != errors.Is(err, journal.ErrChanged) || settled == conditional || w.Seq != 0 {
					t.Errorf("it is %+v (%v), %v", w, settled, err)
				}
				v.settleWithin(time.Minute)
				v.wantNow(key("k"), "newer", false)
				v.wantLetters()
			})
		})
	}
}

// A failed write through leaves nothing pending, and a version that it may have left is not taken for
// another host's.
func TestWritesThroughThatFailOverAVersion(t *testing.T) {
	for name, row := range map[string]struct {
		what   mishap
		status int
		held   string

		reopens bool
	}{
		"not sent":                   {refused, 503, "base", false},
		"carried out":                {lost, 504, "through", false},
		"carried out before a start": {lost, 504, "through", true},
		"never":                      {vanished, 504, "base", false},
		"crowded out":                {crowded, 503, "base", false},
	} {
		t.Run(name, func(t *testing.T) {
			exact(t, func(t *testing.T, v *versioned) {
				v.settledPut(key("k"), "base")
				v.seat.set(func(b *bucket) {
					b.failed = &upstream.Error{Verdict: upstream.Unsent, Reason: "no servers"}
					b.mishap = func(string, upstream.Proposal) mishap { return row.what }
				})
				_, _, err := v.throughPut("through", unconditional)
				var not *flush.NotWritten
				if !errors.As(err, &not) || not.WriteStatus() != row.status {
					t.Errorf("the error is %v", err)
				}
				v.seat.set(func(b *bucket) { b.mishap = nil })
				v.wantNow(key("k"), row.held, false)
				if n := v.pending(); n != 0 {
					t.Errorf("%d writes are pending", n)
				}
				if state, err := v.journal.Lookup(key("k")); err != nil || row.status == 504 && time.Since(state.ConfirmedAt) < time.Hour {
					t.Errorf("readers need not ask upstream: %+v, %v", state, err)
				}
				if row.reopens {
					v = v.reopened()
				}
				if row.held == "through" {
					if _, _, err := v.throughPut("replaced", v.conditional); !errors.Is(err, journal.ErrChanged) {
						t.Errorf("conditions that were judged by the copy hold: %v", err)
					}
				}
				v.settledPut(key("k"), "after")
				v.wantNow(key("k"), "after", false)
				v.wantLetters()
				if doubts, err := v.journal.InDoubt(); err != nil || len(doubts) != 0 {
					t.Errorf("in doubt are %v, %v", doubts, err)
				}
			})
		})
	}
}
