package journal_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// stalling is a disk on which syncs of the log can be stalled.
type stalling struct {
	fs vfs.FS

	mu      sync.Mutex
	stalled chan struct{} // nil while syncs are not stalled
}

func newStalling() *stalling {
	s := &stalling{}
	s.fs = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isSync(op) && strings.HasSuffix(op.Path, ".log") {
			s.mu.Lock()
			stalled := s.stalled
			s.mu.Unlock()
			if stalled != nil {
				<-stalled
			}
		}
		return nil
	}))
	return s
}

// stall makes syncs wait until goOn is called.
func (s *stalling) stall() (goOn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stalled := make(chan struct{})
	s.stalled = stalled
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stalled = nil
		close(stalled)
	}
}

// later makes a call on another goroutine. ended reports whether the call has returned; then err has
// its error.
func later(call func() error) (ended func() bool, err *error) {
	err = new(error)
	done := make(chan struct{})
	go func() {
		defer close(done)
		*err = call()
	}()
	return func() bool {
		synctest.Wait()
		select {
		case <-done:
			return true
		default:
			return false
		}
	}, err
}

// No reader sees a state that a power cut could undo (contract 7).
func TestWriteIsNotReadBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		put(t, j, key("a"), "1")
		goOn := disk.stall()
		written, err := later(func() error { return write(j, key("a"), 2) })
		if written() {
			t.Error("the write was acknowledged before it was synced")
		}
		expect(t, j, key("a"), journal.Value, "1")
		goOn()
		if !written() || *err != nil {
			t.Errorf("the write has ended: %v, %v", written(), *err)
		}
		if state := lookup(t, j, key("a")); state.Seq != 2 {
			t.Errorf("state is %+v", state)
		}
	})
}

// A settled copy may come from upstream's answer, which is not durable here yet. Readers wait until it
// is (contract 7).
func TestReadersWaitForTheFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		goOn := disk.stall()
		filled, fillErr := later(func() error { return second(j.Fill(key("a"), observed("1"), always)) })
		if filled() {
			t.Error("the fill has ended before it was synced")
		}
		read, readErr := later(func() error { return second(j.Lookup(key("a"))) })
		list, listErr := later(func() error { _, _, err := j.Listing("ns", allRows); return err })
		if read() || list() {
			t.Error("the readers did not wait")
		}
		goOn()
		if !filled() || !read() || !list() || errors.Join(*fillErr, *readErr, *listErr) != nil {
			t.Errorf("ended: %v, %v, %v; %v, %v, %v", filled(), read(), list(), *fillErr, *readErr, *listErr)
		}
		expect(t, j, key("a"), journal.Settled, "1")
	})
}

// A pending write takes its times from the copy that it follows: its readers wait until that is durable, too (contract 7).
func TestReadersOfAPendingWriteWaitForTheFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		put(t, j, key("a"), "mine")
		goOn := disk.stall()
		theirs := observed("theirs")
		theirs.UpdatedAt = 9e9
		filled, fillErr := later(func() error { return second(j.Fill(key("a"), theirs, always)) })
		if filled() {
			t.Error("the fill has ended before it was synced")
		}
		var state journal.State
		read, readErr := later(func() (err error) { state, err = j.Lookup(key("a")); return err })
		if read() {
			t.Errorf("the reader did not wait: %+v", state)
		}
		goOn()
		if !filled() || !read() || errors.Join(*fillErr, *readErr) != nil || state.Value != "mine" || state.UpdatedAt != 9e9 {
			t.Errorf("ended: %v, %v; %v, %v, %+v", filled(), read(), *fillErr, *readErr, state)
		}
	})
}

// No reader sees a listing that a power cut could undo, and none can conclude from a missing copy that
// the listing lacks the entry (contract 7).
func TestReadersWaitForTheListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		no(t, second(j.Fill(key("a"), observed("1"), always)))
		goOn := disk.stall()
		taken, takeErr := later(func() error { return j.BeginListing("ns").Commit(rows("b"), true) })
		if taken() {
			t.Error("the listing was taken before it was synced")
		}
		read, readErr := later(func() error { return second(j.Lookup(key("a"))) })
		list, listErr := later(func() error { _, _, err := j.Listing("ns", allRows); return err })
		if read() || list() {
			t.Errorf("readers did not wait: of the entry %v, of the listing %v", !read(), !list())
		}
		goOn()
		if !taken() || !read() || !list() || errors.Join(*takeErr, *readErr, *listErr) != nil {
			t.Errorf("ended: %v, %v, %v; %v, %v, %v", taken(), read(), list(), *takeErr, *readErr, *listErr)
		}
		expect(t, j, key("a"), journal.Absent, "")
	})
}

// A condition that fails because of a write reveals that write, so the refusal waits until the write is
// durable (contracts 1 and 7).
func TestRefusedConditionIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		goOn := disk.stall()
		written, writeErr := later(func() error { return write(j, key("a"), 1) })
		if written() {
			t.Error("the write was acknowledged before it was synced")
		}
		refused, refusal := later(func() error {
			return second(j.Append(journal.NewWrite{
				ID: key("a"), Op: journal.Delete, If: func(newest uint64) bool { return newest == 0 },
			}))
		})
		if refused() {
			t.Error("refused because of a write that is not durable yet")
		}
		goOn()
		if !written() || !refused() || *writeErr != nil || !errors.Is(*refusal, journal.ErrChanged) {
			t.Errorf("ended: %v, %v; %v, %v", written(), refused(), *writeErr, *refusal)
		}
	})
}

// A complete listing without this entry has shown that the entry is gone: a read must not bring it back
// (contract 7).
func TestCopyOfWhatIsNoLongerListed(t *testing.T) {
	j := open(t, vfs.NewMem())
	_, err := j.Fill(key("a"), observed("1"), always)
	no(t, err)
	no(t, j.BeginListing("ns").Commit(rows("b"), false))
	expect(t, j, key("a"), journal.Settled, "1")
	no(t, j.BeginListing("ns").Commit(rows("b"), true))
	expect(t, j, key("a"), journal.Absent, "")
}

// A listing that shows many entries as gone does not make readers wait long: separate changes remove
// their copies, and all of them are removed.
func TestManyCopiesThatAreNoLongerListed(t *testing.T) {
	j := open(t, vfs.NewMem())
	const n = 1000
	for i := range n {
		no(t, second(j.Fill(key("%d", i), observed("1"), always)))
	}
	before := j.Batches()
	no(t, j.BeginListing("ns").Commit(nil, true))
	if batches := j.Batches() - before; batches < n/500 {
		t.Errorf("%d copies went by %d batches", n, batches)
	}
	for i := range n {
		expect(t, j, key("%d", i), journal.Absent, "")
	}
	if hidden := j.NotDurable(); hidden != 0 {
		t.Errorf("readers of %d go on waiting", hidden)
	}
	check(t, j)
}

// Upstream's clock may be behind this host's. The times that readers see for an entry never go back
// (contract 19).
func TestTimeOfAFillNeverDecreases(t *testing.T) {
	j := open(t, vfs.NewMem())
	put(t, j, key("a"), "1")
	before := settle(t, j, key("a"))
	told, err := j.Fill(key("a"), observed("2"), always)
	no(t, err)
	kept := expect(t, j, key("a"), journal.Settled, "2")
	if told.UpdatedAt != before.UpdatedAt || kept.UpdatedAt != before.UpdatedAt {
		t.Errorf("told %v, kept %v, want %v", told.UpdatedAt, kept.UpdatedAt, before.UpdatedAt)
	}
}
