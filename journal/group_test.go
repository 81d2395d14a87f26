package journal_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/botwired/botwired/journal"
)

// gathered runs a test in which the calls of one group arrive, in order, while a sync is stalled. It
// opens the journal, and end lets the sync continue.
func gathered(t *testing.T, test func(t *testing.T, j *journal.Journal, end func()), change ...func(*journal.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs, change...)
		goOn := disk.stall()
		first, err := later(func() error { return write(j, key("first"), 1) })
		if first() {
			t.Error("the sync is not stalled")
		}
		test(t, j, goOn)
		if !first() || *err != nil {
			t.Errorf("the write before them has ended: %v, %v", first(), *err)
		}
		check(t, j)
	})
}

func putting(j *journal.Journal, id journal.ID, value string) func() error {
	return func() error {
		return second(j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: value}))
	}
}

// Writers that wait together are journaled in one batch, in order, and each gets its own answer.
func TestGroup(t *testing.T) {
	gathered(t, func(t *testing.T, j *journal.Journal, end func()) {
		before := j.Batches()
		late := func() error {
			return second(j.Append(journal.NewWrite{
				ID: key("a"), Op: journal.Put, Value: "late", If: func(newest uint64) bool { return newest == 0 },
			}))
		}
		calls := []func() error{
			putting(j, key("a"), "1"), putting(j, key("b"), "1"), late,
			putting(j, key("c"), strings.Repeat("x", 5000)), putting(j, key("a"), "2"),
		}
		var ended []func() bool
		var errs []*error
		for _, call := range calls {
			done, err := later(call)
			if done() {
				t.Error("it did not wait")
			}
			ended, errs = append(ended, done), append(errs, err)
		}
		end()
		for i, want := range []error{nil, nil, journal.ErrChanged, journal.ErrFull, nil} {
			if !ended[i]() || !errors.Is(*errs[i], want) {
				t.Errorf("write %d: ended %v, %v, want %v", i, ended[i](), *errs[i], want)
			}
		}
		if got := j.Batches() - before; got != 1 {
			t.Errorf("%d batches were made", got)
		}
		expect(t, j, key("a"), journal.Value, "2")
		expect(t, j, key("b"), journal.Value, "1")
	}, budget(5000))
}

// Changes other than writes find the earlier gathered changes in the store, and wait for the same sync.
func TestChangesBetweenWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		w := put(t, j, key("settles"), "1")
		end := disk.stall()
		leads, leadErr := later(putting(j, key("leads"), "1"))
		leads()
		first, firstErr := later(putting(j, key("a"), "1"))
		first()
		settled, settleErr := later(func() error { return j.Settle(w) })
		settled()
		again, againErr := later(putting(j, key("a"), "2"))
		if first() || settled() || again() {
			t.Errorf("ended before the sync: %v, %v, %v", first(), settled(), again())
		}
		end()
		if !first() || !settled() || !again() || errors.Join(*leadErr, *firstErr, *settleErr, *againErr) != nil {
			t.Errorf("%v, %v, %v", *firstErr, *settleErr, *againErr)
		}
		expect(t, j, key("a"), journal.Value, "2")
		expect(t, j, key("settles"), journal.Settled, "1")
		put(t, j, key("b"), "1") // it also removes the superseded record
		if pending := j.Stats().Pending; pending != 3 {
			t.Errorf("%d are pending", pending)
		}
		check(t, j)
	})
}

// If a write that waits for its fsync replaces another one, only the newest counts.
func TestBudgetCountsAnEntryOnce(t *testing.T) {
	const ten = "0123456789"
	size := journal.EntryMemory + len("ns") + len("a") + len(ten)
	gathered(t, func(t *testing.T, j *journal.Journal, end func()) {
		var errs []*error
		for _, name := range []string{"a", "a", "a", "a", "b"} {
			done, err := later(putting(j, key("%s", name), ten))
			done()
			errs = append(errs, err)
		}
		end()
		synctest.Wait()
		for i, err := range errs {
			if *err != nil {
				t.Errorf("write %d: %v", i, *err)
			}
		}
		no(t, putting(j, key("a"), "9876543210")())
	}, budget(2*size+journal.EntryMemory+len("ns")+len("first")+1))
}

// Readers of an entry wait until its dead letter is durable (contract 7).
func TestReadersWaitForTheDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		w := put(t, j, key("a"), "1")
		goOn := disk.stall()
		dead, deadErr := later(func() error { return j.DeadLetter(w, journal.Failure{Status: 400}) })
		dead()
		read, readErr := later(func() error { return second(j.Lookup(key("a"))) })
		listed, listErr := later(func() error { _, _, err := j.Listing("ns", allRows); return err })
		if dead() || read() || listed() {
			t.Errorf("ended before the sync: %v, %v, %v", dead(), read(), listed())
		}
		goOn()
		if !dead() || !read() || !listed() || errors.Join(*deadErr, *readErr, *listErr) != nil {
			t.Errorf("%v, %v, %v", *deadErr, *readErr, *listErr)
		}
		expect(t, j, key("a"), journal.Unknown, "")
		if n := j.NotDurable(); n != 0 {
			t.Errorf("readers of %d go on waiting", n)
		}
	})
}
