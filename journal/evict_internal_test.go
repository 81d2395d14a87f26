package journal

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func openInternal(t *testing.T, opts Options) *Journal {
	t.Helper()
	opts.Dir, opts.FS = "j", vfs.NewMem()
	j, err := Open(opts)
	if err == nil {
		err = j.Run(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// A listing is removed under its namespace's copies lock. Otherwise a concurrent update of the listing
// would leave a listing of one row in its place.
func TestListingIsRemovedUnderTheCopiesLock(t *testing.T) {
	j := openInternal(t, Options{})
	if err := j.BeginListing("ns").Commit([]Row{{Key: "a", ListBytes: 1, UpdatedAt: 20}}, true); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond)
	if _, err := j.Fill(ID{Namespace: "other", Key: "a"}, &Observation{Value: "younger"}, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	unlock := j.copies.lock("ns")
	evicted := make(chan error, 1)
	go func() {
		_, err := j.evictor.evict(context.Background(), 1)
		evicted <- err
	}()
	select {
	case err := <-evicted:
		t.Errorf("it was removed while the lock was held, %v", err)
		evicted <- err
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	if err := <-evicted; err != nil {
		t.Error(err)
	}
	if _, ok, err := j.Listing("ns", allRows); ok || err != nil || j.CopiesLocked("ns") {
		t.Errorf("the listing is there: %v, %v; the lock is still held: %v", ok, err, j.CopiesLocked("ns"))
	}
}

// If a copy and its version are removed while an answer with the same value arrives, the answer brings both
// back.
func TestCopyIsRemovedBesideAnAnswer(t *testing.T) {
	j := openInternal(t, Options{})
	id := ID{Namespace: "ns", Key: "a"}
	show := func(at float64) *Observation { return &Observation{Value: "1", ListBytes: 1, UpdatedAt: at} }
	if _, err := j.Fill(id, show(20), func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	f := &filling{copies: j.copies, id: id, valid: func() bool { return true }, unlock: func() {}}
	if err := f.prepare(show(30)); err != nil {
		t.Fatal(err)
	}
	if _, err := j.evictor.evict(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	if err := j.BoundHistory(1); err != nil {
		t.Fatal(err)
	}
	if err := j.store.Update(f); err != nil {
		t.Fatal(err)
	}
	f.reveal()
	if state, err := j.Lookup(id); err != nil || state.Kind != Settled || state.Value != "1" || j.Stats().DamagedFiles != 0 {
		t.Errorf("%+v, %v", state, err)
	}
}
