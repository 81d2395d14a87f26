package journal_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// A copy that arrives while copies are dropped stays: the entry's pending write, which arrives after
// it, takes its created_at from the copy.
func TestCopyThatComesWhileCopiesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		for i := range 1100 { // more than one change removes
			no(t, second(j.Fill(key("copy%04d", i), observed("old"), always)))
		}
		goOn := disk.stall()
		dropped, dropErr := later(j.DropCopies)
		if dropped() {
			t.Fatal("it did not wait for the disk")
		}
		late := key("copy1050-late")
		filled, fillErr := later(func() error { return second(j.Fill(late, observed("upstream's"), always)) })
		filled()
		written, writeErr := later(putting(j, late, "new"))
		written()
		goOn()
		if !dropped() || !filled() || !written() || errors.Join(*dropErr, *fillErr, *writeErr) != nil {
			t.Fatal(*dropErr, *fillErr, *writeErr)
		}
		if state := expect(t, j, late, journal.Value, "new"); state.CreatedAt != 10 {
			t.Errorf("created at %v", state.CreatedAt)
		}
		for i := range 1100 {
			expect(t, j, key("copy%04d", i), journal.Unknown, "")
		}
	})
}

// contract 7: no caller sees a dead letter, or a loss, that a power cut could undo.
func TestAnEndIsNotShownBeforeItIsDurable(t *testing.T) {
	refused := func(j *journal.Journal, w journal.Write) error {
		return j.DeadLetter(w, journal.Failure{Status: 400, Reason: "no"})
	}
	lost := func(j *journal.Journal, w journal.Write) error {
		return j.Fence.Lose(w, foreign("theirs", 20), "later")
	}
	isDead := func(j *journal.Journal, w journal.Write) (bool, error) {
		_, dead, err := j.IsDead(w.ID, w.Seq)
		return dead, err
	}
	for name, test := range map[string]struct {
		end  func(*journal.Journal, journal.Write) error
		read func(*journal.Journal, journal.Write) (shown bool, err error)
	}{
		"list": {refused, func(j *journal.Journal, _ journal.Write) (bool, error) {
			letters, err := j.DeadLetters(0, 10)
			return len(letters) == 1, err
		}},
		"value": {refused, func(j *journal.Journal, w journal.Write) (bool, error) {
			letter, err := j.ReadDeadLetter(w.Seq)
			return letter.Value == "1", err
		}},
		"answer": {refused, isDead},
		"receipt": {refused, func(j *journal.Journal, w journal.Write) (bool, error) {
			r, err := j.Receipts.Read(t.Context(), w.Seq)
			return r.State == journal.ReceiptDead, err
		}},
		"list of what is lost": {lost, func(j *journal.Journal, _ journal.Write) (bool, error) {
			versions, err := j.History.Lost("", 0, 10)
			return len(versions) == 1, err
		}},
		"answer about what is lost": {lost, isDead},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newStalling()
				j := open(t, disk.fs)
				w := put(t, j, key("a"), "1")
				goOn := disk.stall()
				ended, endErr := later(func() error { return test.end(j, w) })
				ended()
				shown := false
				answered, readErr := later(func() (err error) { shown, err = test.read(j, w); return err })
				if answered() && shown {
					t.Error("it was shown before the sync")
				}
				goOn()
				if !ended() || !answered() || *endErr != nil || *readErr != nil || !shown {
					t.Errorf("%v, %v, shown: %v", *endErr, *readErr, shown)
				}
			})
		})
	}
}

// The journal checks the budget with values from one moment. It does not combine the pending bytes from
// before a batch with the superseded ones from after it.
func TestRoomIsJudgedOfOneMoment(t *testing.T) {
	const value = 1000
	j := open(t, vfs.NewMem(), func(o *journal.Options) { o.MaxBytes = 4*(value+journal.EntryMemory+10) + 2*journal.EntryMemory })
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					no(t, putting(j, key("%d", g), fmt.Sprintf("%0*d", value, i))())
				}
			}
		})
	}
	for range 200_000 {
		if err := j.Err(); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	wg.Wait()
}
