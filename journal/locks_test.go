package journal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// No caller holds a namespace's copies lock during a sync: not for a change, an answer that changes
// nothing, or a refusal.
func TestCopiesLockIsNotHeldDuringASync(t *testing.T) {
	never := func() bool { return false }
	for name, call := range map[string]func(*journal.Journal, journal.Write) func() error{
		"settle": func(j *journal.Journal, w journal.Write) func() error {
			return func() error { return j.Settle(w) }
		},
		"dead letter": func(j *journal.Journal, w journal.Write) func() error {
			sent(t, j, w)
			return func() error { return j.DeadLetter(w, journal.Failure{Status: 400}) }
		},
		"lose": func(j *journal.Journal, w journal.Write) func() error {
			return func() error { return j.Fence.Lose(w, foreign("2", 20), "later") }
		},
		"keepOverwritten": func(j *journal.Journal, w journal.Write) func() error {
			return func() error { return j.Fence.KeepOverwritten(w.ID, foreign("2", 20)) }
		},
		"delete": func(j *journal.Journal, w journal.Write) func() error {
			return func() error { return second(j.Append(journal.NewWrite{ID: w.ID, Op: journal.Delete})) }
		},
		"refused delete": func(j *journal.Journal, w journal.Write) func() error {
			refuse := func(uint64) bool { return false }
			return func() error { return second(j.Append(journal.NewWrite{ID: w.ID, Op: journal.Delete, If: refuse})) }
		},
		"answer": func(j *journal.Journal, _ journal.Write) func() error {
			return func() error { return second(j.Fill(key("copy"), named("2", 200, 60), always)) }
		},
		"unchanged answer": func(j *journal.Journal, _ journal.Write) func() error {
			return func() error { return second(j.Fill(key("copy"), named("1", 100, 50), always)) }
		},
		"overtaken answer": func(j *journal.Journal, _ journal.Write) func() error {
			return func() error { return second(j.Fill(key("copy"), named("2", 200, 60), never)) }
		},
		"listing": func(j *journal.Journal, _ journal.Write) func() error {
			return func() error { return j.BeginListing("ns").Commit(rows("copy", "other"), true) }
		},
		"unchanged listing": func(j *journal.Journal, _ journal.Write) func() error {
			return func() error { return j.BeginListing("ns").Commit(rows("copy"), true) }
		},
		"listing that lacks a newest state": func(j *journal.Journal, _ journal.Write) func() error {
			return func() error { return j.BeginListing("ns").Commit(rows("a"), true) }
		},
		"forget": func(j *journal.Journal, _ journal.Write) func() error {
			return func() error { return second(j.Disk.Forget(key("copy"))) }
		},
		"purge": func(j *journal.Journal, _ journal.Write) func() error {
			return func() error { return second(j.Purge(context.WithoutCancel(t.Context()), "ns", "copy", 1<<40)) }
		},
		"purge of all": func(j *journal.Journal, _ journal.Write) func() error {
			return func() error { return second(j.Purge(context.WithoutCancel(t.Context()), "ns", "", 1<<40)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newStalling()
				j := open(t, disk.fs, names)
				no(t, j.Run(t.Context()))
				no(t, second(j.Fill(key("copy"), named("1", 100, 50), always)))
				no(t, j.BeginListing("ns").Commit(rows("copy"), true))
				w := put(t, j, key("a"), "1")
				goOn := disk.stall()
				first, _ := later(putting(j, key("first"), "1"))
				first()
				waiting, _ := later(putting(j, key("waiting"), "1"))
				waiting()
				ended, _ := later(call(j, w))
				if first() || waiting() || ended() {
					t.Error("it did not wait for the sync")
				}
				if j.CopiesLocked("ns") {
					t.Error("and meanwhile nobody else can change a copy")
				}
				goOn()
				time.Sleep(time.Minute) // a purge waits until old files are gone
				if !ended() || !waiting() {
					t.Error("it did not end")
				}
				if j.CopiesLocked("ns") {
					t.Error("the lock is never let go")
				}
			})
		})
	}
}

// If two callers retry a dead letter at the same time, the second one is refused, and blocks nobody
// while it waits for the first one's sync.
func TestRefusedRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		w := put(t, j, key("a"), "1")
		no(t, j.DeadLetter(w, journal.Failure{Status: 400}))
		goOn := disk.stall()
		leads, _ := later(putting(j, key("leads"), "1"))
		leads()
		first, firstErr := later(func() error { return second(j.Retry(w.Seq, journal.AnyWrite)) })
		first()
		again, againErr := later(func() error { return second(j.Retry(w.Seq, journal.AnyWrite)) })
		if first() || again() {
			t.Error("they did not wait for the sync")
		}
		if j.CopiesLocked("ns") {
			t.Error("and meanwhile nobody else can change a copy")
		}
		goOn()
		if !first() || !again() {
			t.Error("they did not end")
		}
		if *firstErr != nil || !errors.Is(*againErr, journal.ErrNoDeadLetter) {
			t.Errorf("%v, %v", *firstErr, *againErr)
		}
		expect(t, j, key("a"), journal.Value, "1")
		check(t, j)
	})
}

// Nobody is told that a dead letter is gone before that is durable (contract 7).
func TestADeadLetterIsGoneDurably(t *testing.T) {
	for name, asks := range map[string]func(j *journal.Journal, seq uint64) error{
		"retry":   func(j *journal.Journal, seq uint64) error { return second(j.Retry(seq, journal.AnyWrite)) },
		"discard": func(j *journal.Journal, seq uint64) error { return j.Discard(seq) },
		"read":    func(j *journal.Journal, seq uint64) error { return second(j.ReadDeadLetter(seq)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newStalling()
				j := open(t, disk.fs)
				w := put(t, j, key("a"), "1")
				no(t, j.DeadLetter(w, journal.Failure{Status: 400}))
				goOn := disk.stall()
				first, firstErr := later(func() error { return j.Discard(w.Seq) })
				first()
				again, againErr := later(func() error { return asks(j, w.Seq) })
				if first() || again() {
					t.Errorf("ended before the sync: %v, %v", first(), again())
				}
				goOn()
				if !first() || !again() || *firstErr != nil || !errors.Is(*againErr, journal.ErrNoDeadLetter) {
					t.Errorf("%v, %v; %v, %v", first(), again(), *firstErr, *againErr)
				}
			})
		})
	}
}

// A write that a newer one has overtaken leaves no dead letter, and blocks nobody while that waits for the sync
// of the newer one.
func TestDeadLetterOfAnOvertakenWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		w := put(t, j, key("a"), "1")
		goOn := disk.stall()
		newer, _ := later(putting(j, key("a"), "2"))
		newer()
		ended, err := later(func() error { return j.DeadLetter(w, journal.Failure{Status: 400}) })
		if newer() || ended() {
			t.Error("they did not wait for the sync")
		}
		if j.CopiesLocked("ns") {
			t.Error("and meanwhile nobody else can change a copy")
		}
		goOn()
		if !newer() || !ended() || *err != nil {
			t.Errorf("they did not end: %v", *err)
		}
		expect(t, j, key("a"), journal.Value, "2")
		check(t, j)
	})
}

// Entries can be written during a walk of their namespace: a walk holds the lock for some hundreds of
// entries at a time.
func TestWalkLetsWritersIn(t *testing.T) {
	const entries, atOnce = 3000, 1024
	j := open(t, vfs.NewMem())
	last := uint64(0)
	for i := range entries {
		last = put(t, j, key("%d", i), "old").Seq
	}
	old, renewed := 0, 0
	no(t, j.VisitPending("ns", func(p journal.Pending) {
		if old+renewed == 0 {
			for i := range entries {
				put(t, j, key("%d", i), "new")
			}
		}
		if p.Seq <= last {
			old++
		} else {
			renewed++
		}
	}))
	if old > atOnce || old+renewed < entries {
		t.Errorf("%d entries were visited as they were before all were written, and %d as they are now", old, renewed)
	}
}
