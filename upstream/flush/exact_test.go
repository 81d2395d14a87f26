package flush_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// exact runs a test with one host on a bucket.
func exact(t *testing.T, test func(t *testing.T, v *versioned)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newVersioned(t, &seat{bucket: newBucket(t), host: "a"}, vfs.NewMem()))
	})
}

// A write takes one request over any earlier state, and its copy has upstream's times.
func TestAnExactWriteIsOneRequest(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		for i, op := range []func() journal.Write{
			func() journal.Write { return v.del(key("k")) }, // upstream keeps the tombstone
			func() journal.Write { return v.put(key("k"), "1") },
			func() journal.Write { return v.put(key("k"), "2") },
			func() journal.Write { return v.del(key("k")) },
			func() journal.Write { return v.put(key("k"), "3") },
		} {
			w := op()
			v.settleWithin(time.Second)
			now := v.seat.now(key("k"))
			if now.Value != w.Value || now.Deleted != (w.Op == journal.Delete) || now.WrittenAt != w.UpdatedAt ||
				now.Writer != (upstream.Writer{Host: "a", Seq: w.Seq}) || now.Revision != uint64(i)+1 {
				t.Errorf("%d: upstream has %+v of %+v", i, now, w)
			}
		}
		now := v.seat.now(key("k"))
		if state, err := v.journal.Lookup(key("k")); err != nil || state.UpdatedAt != now.WrittenAt || state.CreatedAt != now.CreatedAt {
			t.Errorf("the copy is %+v, %v, and upstream has %+v", state, err, now)
		}
		if v.seat.asked != 0 || v.swapped() != 5 {
			t.Errorf("upstream was asked %d times", v.seat.asked)
		}
		v.wantLetters()
		v.stop()
		v.wantFences(map[string]int{"absent": 1, "unchanged": 4})
	})
}

// The author travels with the write. A state of another host that wins has its author and its host here.
func TestTheAuthorTravels(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		v.append(journal.NewWrite{ID: key("k"), Op: journal.Put, Value: "1", Author: "me"})
		v.settleWithin(time.Second)
		v.append(journal.NewWrite{ID: key("k"), Op: journal.Put, Value: "2", Author: "me too"})
		v.seat.set(func(b *bucket) {
			if len(b.swaps) != 1 || b.swaps[0].Author != "me" {
				t.Errorf("the swaps are %+v", b.swaps)
			}
			b.carryOut(upstream.Proposal{
				ID: key("k"), Op: journal.Put, Value: "theirs", WrittenAt: upstream.Unix(time.Now().Add(time.Minute)),
				Writer: upstream.Writer{Host: "z", Seq: 1}, Author: "them", Over: b.last(key("k")),
			})
		})
		v.settleWithin(time.Second)
		past, err := v.journal.History.Of(key("k"), 10)
		if err != nil || len(past) != 3 || past[0].Author+past[0].Host != "themz" || past[1].Author != "me too" || past[2].Author != "me" {
			t.Errorf("%+v, %v", past, err)
		}
		if lost, err := v.journal.History.Lost("", 0, 10); err != nil || len(lost) != 1 || lost[0].Author != "me too" {
			t.Errorf("%+v, %v", lost, err)
		}
	})
}

// contract 17: the later write wins, the loser is kept with both values, and readers see the winner at
// once. The host may or may not know of the other host's write when it sends its own.
func TestTheLaterWriteWinsExactly(t *testing.T) {
	put, del := journal.Put, journal.Delete
	const base = -time.Hour
	for name, row := range map[string]struct {
		op, theirs journal.Op
		at         time.Duration // of the other host's write
		wins       bool
		letter     letter
	}{
		"a later put":                {put, put, time.Second, false, letter{"lost", false, put, "local"}},
		"an earlier put":             {put, put, -time.Second, true, letter{"lost", true, put, "theirs"}},
		"a later delete":             {put, del, time.Second, false, letter{"lost", false, put, "local"}},
		"an earlier delete":          {put, del, -time.Second, true, letter{"lost", true, del, ""}},
		"a delete, and a later put":  {del, put, time.Second, false, letter{"lost", false, del, ""}},
		"a delete, an earlier put":   {del, put, -time.Second, true, letter{"lost", true, put, "theirs"}},
		"a put from before we cared": {put, put, base, true, letter{}},
	} {
		for heard, lag := range map[string]time.Duration{"heard": 0, "not heard": time.Hour} {
			t.Run(name+", "+heard, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &seat{bucket: newBucket(t), host: "a", lag: lag}
					v := newVersioned(t, s, vfs.NewMem())
					if row.at != base {
						v.settledPut(key("k"), "base")
					}
					time.Sleep(time.Minute)
					local := v.append(journal.NewWrite{ID: key("k"), Op: row.op, Value: valueOf(row.op, "local"), ListBytes: 5})
					s.foreign(key("k"), row.theirs, valueOf(row.theirs, "theirs"), time.Now().Add(row.at))
					v.settleWithin(time.Minute)
					if row.wins {
						v.wantNow(key("k"), local.Value, row.op == del)
					} else {
						v.wantNow(key("k"), valueOf(row.theirs, "theirs"), row.theirs == del)
						kind, want := journal.Settled, valueOf(row.theirs, "theirs")
						if row.theirs == del {
							kind, want = journal.Unknown, ""
						}
						v.wantKnown(key("k"), want, kind)
					}
					if row.letter == (letter{}) {
						v.wantLetters()
						return
					}
					v.wantLetters(row.letter)
				})
			})
		}
	}
}

func valueOf(op journal.Op, value string) string {
	if op == journal.Delete {
		return ""
	}
	return value
}

// contract 14: an unanswered request may land, early or late, or get lost: the newest write is there in the
// end. The flusher takes no other host's write for its own, and waits for no window to pass.
func TestUnansweredSwaps(t *testing.T) {
	for name, what := range map[string]mishap{"carried out": lost, "carried out late": late, "never": vanished} {
		for _, newer := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				exact(t, func(t *testing.T, v *versioned) {
					v.settledPut(key("k"), "base")
					v.swapped()
					v.seat.set(func(b *bucket) {
						b.mishap = func(string, upstream.Proposal) mishap { b.mishap = nil; return what }
					})
					want := v.put(key("k"), "1")
					time.Sleep(time.Second)
					if newer {
						want = v.put(key("k"), "2")
					}
					v.settleWithin(timeout + 2*time.Second)
					time.Sleep(time.Minute)
					v.wantNow(key("k"), want.Value, false)
					v.wantKnown(key("k"), want.Value, journal.Settled)
					if n := v.swapped(); n > 3 {
						t.Errorf("there were %d swaps", n)
					}
					v.wantLetters()
				})
			})
		}
	}
}

// A restart between a request and its answer is no different: versions that the earlier process left
// are recognized by their writer, and nothing waits.
func TestARestartBetweenASwapAndItsAnswer(t *testing.T) {
	for name, newer := range map[string]bool{"the same write": false, "a newer one": true} {
		t.Run(name, func(t *testing.T) {
			exact(t, func(t *testing.T, v *versioned) {
				v.settledPut(key("k"), "base")
				v.seat.set(func(b *bucket) {
					b.mishap = func(string, upstream.Proposal) mishap { b.mishap = nil; return lost }
				})
				v.put(key("k"), "1")
				time.Sleep(time.Second)
				if newer {
					v.put(key("k"), "2")
				}
				v = v.reopened()
				v.settleWithin(time.Second)
				want := map[bool]string{false: "1", true: "2"}[newer]
				v.wantNow(key("k"), want, false)
				v.wantKnown(key("k"), want, journal.Settled)
				v.wantLetters()
			})
		})
	}
}

// If several hosts write one entry, a conflict may not name the winner. The host pauses, and backs off
// as after a failure if that never ends. Upstream counts as healthy all the same.
func TestConflictsThatNameNobody(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		left := 5
		v.seat.set(func(b *bucket) {
			b.mishap = func(string, upstream.Proposal) mishap {
				if left--; left >= 0 {
					return crowded
				}
				return fine
			}
		})
		v.put(key("k"), "1")
		v.settleWithin(5 * time.Second)
		if n := v.swapped(); n != 6 {
			t.Errorf("there were %d swaps", n)
		}
		v.seat.set(func(*bucket) { left = 1000 })
		v.put(key("k"), "2")
		time.Sleep(5 * time.Second)
		if _, why, _ := v.flusher.Attempts(key("k")); why == "" || v.health.Report().State != upstream.Up {
			t.Errorf("it waits for %q, and upstream is %+v", why, v.health.Report())
		}
		v.seat.set(func(*bucket) { left = 0 })
		v.settledPut(key("k"), "3")
		v.wantNow(key("k"), "3", false)
		v.stop()
		if v.fences["conflict"] < 45 {
			t.Errorf("the fences have ended as %v", v.fences)
		}
	})
}

// Errors of an exact engine have the same effects as elsewhere.
func TestExactWritesThatFail(t *testing.T) {
	for name, row := range map[string]struct {
		failed upstream.Error
		dead   bool
	}{
		"unsent":    {upstream.Error{Verdict: upstream.Unsent, Reason: "no servers"}, false},
		"transient": {upstream.Error{Verdict: upstream.Transient, Reason: "no leader"}, false},
		"throttled": {upstream.Error{Verdict: upstream.Throttled, Reason: "slow", RetryAfter: time.Second, Answered: true}, false},
		"paused":    {upstream.Error{Verdict: upstream.Paused, Reason: "who?", Answered: true}, false},
		"permanent": {upstream.Error{Verdict: upstream.Permanent, Reason: "too large", Answered: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			exact(t, func(t *testing.T, v *versioned) {
				v.seat.set(func(b *bucket) {
					b.failed = &row.failed
					b.mishap = func(string, upstream.Proposal) mishap { b.mishap = nil; return refused }
				})
				w := v.put(key("k"), "1")
				v.settleWithin(time.Minute)
				if _, dead, err := v.journal.IsDead(w.ID, w.Seq); dead != row.dead || err != nil {
					t.Errorf("it is a dead letter: %v, %v", dead, err)
				}
				if !row.dead {
					v.wantNow(key("k"), "1", false)
				}
			})
		})
	}
}

// A copied data directory writes under the same name and numbers: neither write is taken for the other.
func TestACopiedDataDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		b.away["a"] = true
		original := newVersioned(t, &seat{bucket: b, host: "a"}, vfs.NewMem())
		copied := newVersioned(t, &seat{bucket: b, host: "a"}, vfs.NewMem())
		original.put(key("k"), "original")
		time.Sleep(time.Second)
		copied.put(key("k"), "copied")
		b.set(func(b *bucket) { b.away["a"] = false })
		original.settleWithin(time.Minute)
		copied.settleWithin(time.Minute)
		original.wantNow(key("k"), "copied", false)
		if len(original.letters())+len(copied.letters()) != 1 {
			t.Errorf("the letters are %+v and %+v", original.letters(), copied.letters())
		}
	})
}

// A version that is known without a request says nothing about upstream's health, and costs no quota.
func TestALossThatNeedsNoRequest(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		w := v.put(key("k"), "1")
		v.seat.foreign(key("k"), journal.Delete, "", time.Now().Add(time.Second))
		v.seat.set(func(b *bucket) { b.away["z"] = true })
		v.settleWithin(time.Second)
		if state, dead, err := v.journal.IsDead(w.ID, w.Seq); !dead || state != journal.ReceiptSuperseded || err != nil {
			t.Errorf("it is %v, %v, %v", state, dead, err)
		}
		if v.seat.asked != 0 || v.swapped() != 0 || !v.health.Report().LastSuccess.IsZero() {
			t.Errorf("upstream was asked: %+v", v.health.Report())
		}
	})
}
