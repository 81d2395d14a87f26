package entries

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/bootclock"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// open opens entries in memory, over a queue without writes.
func open(t *testing.T) *Entries {
	t.Helper()
	readers := queue.NewReaders()
	opts := store.Options{Dir: "j", FS: vfs.NewMem(), Readers: readers, Logger: slog.New(slog.DiscardHandler)}
	if err := opts.FS.MkdirAll(opts.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if opts.Lock, err = store.LockDir(opts.FS, opts.Dir); err == nil {
		err = store.Create(opts)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	q := queue.New(s, readers, queue.Options{Receipts: queue.ReceiptsKept, Logger: opts.Logger, BootClock: bootclock.Now})
	e := New(s, q, Options{Logger: opts.Logger})
	if err := errors.Join(e.Load(), q.Load(), q.Rebuild(t.Context())); err != nil {
		t.Fatal(err)
	}
	q.Complete()
	return e
}

// A listing is removed under its namespace's copies lock. Otherwise a concurrent update of the listing
// would leave a listing of one row in its place.
func TestListingIsRemovedUnderTheCopiesLock(t *testing.T) {
	e := open(t)
	if err := e.BeginListing("ns").Commit([]Row{{Key: "a", ListBytes: 1, UpdatedAt: 20}}, true); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond)
	if _, err := e.Fill(ID{Namespace: "other", Key: "a"}, &Observation{Value: "younger"}, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	unlock := e.Lock("ns")
	evicted := make(chan error, 1)
	go func() {
		_, err := e.Evict(context.Background(), 1)
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
	unlock, free := e.TryLock("ns")
	unlock()
	if _, ok, err := e.Listing("ns", 1000); ok || err != nil || !free {
		t.Errorf("the listing is there: %v, %v; the lock is free: %v", ok, err, free)
	}
}

// If a copy and its version are removed while an answer with the same value arrives, the answer brings both
// back.
func TestCopyIsRemovedBesideAnAnswer(t *testing.T) {
	e := open(t)
	id := ID{Namespace: "ns", Key: "a"}
	show := func(at float64) *Observation { return &Observation{Value: "1", ListBytes: 1, UpdatedAt: at} }
	if _, err := e.Fill(id, show(20), func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	f := &filling{Entries: e, id: id, valid: func() bool { return true }, unlock: func() {}}
	if err := f.prepare(show(30)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Evict(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := e.TrimHistory(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := e.store.Update(f); err != nil {
		t.Fatal(err)
	}
	f.Reveal()
	if state, _, err := e.DurableState(id); err != nil || state.Kind != Settled || state.Value != "1" || e.store.DamagedFiles() != 0 {
		t.Errorf("%+v, %v", state, err)
	}
}
