package store

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/journal/internal/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openStore makes and opens a store on a file system.
func openStore(t *testing.T, fs vfs.FS, change ...func(*Options)) *Store {
	t.Helper()
	opts := Options{
		Dir: "s", FS: fs, Readers: new(sync.Mutex), Logger: slog.New(slog.DiscardHandler), FullDiskPause: 1,
	}
	for _, c := range change {
		c(&opts)
	}
	no(t, fs.MkdirAll(opts.Dir, 0o700))
	var err error
	opts.Lock, err = LockDir(fs, opts.Dir)
	no(t, err)
	if exists, err := CheckFormat(fs, opts.Dir); !exists {
		no(t, errors.Join(err, Create(opts)))
	}
	s, err := Open(opts)
	no(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func no(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put is a change that journals a write.
func put(key, value string) ChangeFunc {
	return func(tx *Tx) error {
		v := record.Pending{Seq: tx.NextSeq(), Op: record.Put, Bytes: int32(len(value))}
		tx.SetPending(record.ID{Namespace: "ns", Key: key}, &v, nil, &record.Version{Op: v.Op, Value: value})
		return nil
	}
}

// held pretends that a sync is in progress until the returned function is called. Changes gather
// meanwhile.
func held(s *Store) (end func()) {
	s.order.Lock()
	defer s.order.Unlock()
	s.syncing = &group{}
	return func() { s.lead(s.next()) }
}

// enqueued enqueues changes without waiting for their sync.
func enqueued(s *Store, changes ...Change) (tickets []ticket, errs []error) {
	for _, c := range changes {
		t, err := s.enqueue(c)
		tickets, errs = append(tickets, t), append(errs, err)
	}
	return tickets, errs
}

// addsUp compares the store with its state record: a power cut may leave the store as it is now.
func addsUp(t *testing.T, s *Store) {
	t.Helper()
	snapshot := s.Snapshot()
	defer func() { no(t, snapshot.Close()) }()
	found, err := Count(snapshot, func(record.ID, record.Pending) error { return nil })
	no(t, err)
	want, err := ReadTotals(snapshot)
	no(t, errors.Join(err, want.Compare(found)))
}

func holds(t *testing.T, s *Store, key []byte) bool {
	t.Helper()
	_, closer, err := s.DB().Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false
	}
	no(t, err)
	no(t, closer.Close())
	return true
}
