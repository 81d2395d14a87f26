package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// storeOptions returns options for a store that nothing else uses.
func storeOptions(fsys vfs.FS, dir string) store.Options {
	return store.Options{Dir: dir, FS: fsys, Readers: new(sync.Mutex), Logger: slog.New(slog.DiscardHandler)}
}

// batchBytes bounds one batch of a new journal, in bytes.
const batchBytes = 1 << 20

// content describes a journal to build.
type content struct {
	records           source
	listings, settled bool                  // whether to include these records
	valueless         map[uint64]share      // pending writes to leave out: see sifter
	damagedVersions   map[uint64]bool       // copies of these versions are left out: see sifter
	lacksVersion      func(key []byte) bool // so are copies of these; nil for none
	settledKept       int                   // the copies that fill has written
	forgottenUpTo     float64               // if not 0: versions up to then, in Unix seconds, may be missing
	batches, lastSeq  uint64
}

// build creates a journal from the records that pass their checks, and checks the result.
func build(fsys vfs.FS, dir string, c *content) (err error) {
	if err := fsys.MkdirAll(dir, diskfs.DirMode); err != nil {
		return err
	}
	opts := storeOptions(fsys, dir)
	opts.AwaitRoom = func(needed int64) error { // guard 4.39
		if needed > 0 {
			return fmt.Errorf("it needs %d bytes: %w", needed, syscall.ENOSPC)
		}
		return nil
	}
	var failure error
	opts.Fatal = func(err error) { failure = err }
	if opts.Lock, err = store.LockDir(fsys, dir); err != nil {
		return err
	}
	if err := store.Create(opts); err != nil {
		return errors.Join(failure, err, opts.Lock.Close())
	}
	made, err := store.Open(opts)
	if err != nil {
		return errors.Join(failure, err, opts.Lock.Close())
	}
	if err = c.fill(made); err == nil {
		err = compare(made)
	}
	return errors.Join(failure, err, made.Close())
}

func compare(made *store.Store) error {
	found, err := store.Count(made.DB(), func(record.ID, record.Pending) error { return nil })
	want := made.Totals()
	return errors.Join(err, want.Compare(found))
}

// fill writes the records that pass their checks to a new store, and then the totals that count them.
func (c *content) fill(made *store.Store) error {
	f := filler{content: c, made: made}
	if err := c.records.each(f.take); err != nil {
		return err
	}
	if err := f.keepPending(); err != nil {
		return err
	}
	totals := f.sifter.totals
	totals.Batches = max(c.batches, made.Totals().Batches)
	totals.Seq = c.lastSeq
	return f.write(func(tx *store.Tx) {
		tx.Set(record.SendingKey, record.EncodeSending(record.Sending{})) // guard 4.10
		if c.forgottenUpTo != 0 {
			tx.Set(record.RetentionKey, record.EncodeRetention(c.forgottenUpTo, totals.Seq))
		}
		tx.SetTotals(totals)
	})
}

// filler takes the records in key order: those of what requests may have left upstream come first, one entry's pending writes are
// adjacent, and the versions come last.
type filler struct {
	*content
	made    *store.Store
	waiting [][2][]byte // keys and sealed values for the next change
	bytes   int         // of these
	sifter  sifter
	pending pendingRecord // the last one, which is not written yet
}

// pendingRecord is a pending write's record.
type pendingRecord struct {
	id         record.ID
	v          record.Pending
	key, value []byte // nil if there is none
}

func (f *filler) take(key, value []byte) error {
	kind, ok := f.sifter.take(key, value)
	if !ok {
		return nil
	}
	settled := kind.Prefix == record.SettledPrefix
	switch {
	case kind.Class == record.Made, bytes.Equal(key, record.GenerationsKey): // the recovered journal counts its receipts again
		return nil
	case kind.Prefix == record.PendingPrefix:
		return f.takePending(key, value)
	case settled && (!f.settled || f.isValueless(key, value)):
		return nil
	case kind.Class == record.Copied && !settled && !f.listings:
		return nil
	}
	if settled {
		f.settledKept++
	}
	return f.set(bytes.Clone(key), bytes.Clone(value))
}

// set adds a record, which belongs to f from now on.
func (f *filler) set(key, value []byte) error {
	f.waiting = append(f.waiting, [2][]byte{key, value})
	if f.bytes += len(key) + len(value); f.bytes < batchBytes {
		return nil
	}
	return f.write(func(*store.Tx) {})
}

// write makes the waiting records durable, and what more adds.
func (f *filler) write(more func(*store.Tx)) error {
	err := f.made.Update(store.ChangeFunc(func(tx *store.Tx) error {
		for _, r := range f.waiting {
			tx.Set(r[0], r[1])
		}
		more(tx)
		return nil
	}))
	f.waiting, f.bytes = nil, 0
	return err
}

// isValueless reports whether the version of a settled copy cannot be read.
func (f *filler) isValueless(key, value []byte) bool {
	version, err := record.VersionOfSettled(key, value)
	return err != nil || f.damagedVersions[hashOf(version)] || f.lacksVersion != nil && f.lacksVersion(version) // guard 4.32
}

// takePending keeps an entry's newest pending write that has a value. A damaged log may have lost the
// removal of an older one.
func (f *filler) takePending(key, value []byte) error {
	body, err := record.Unseal(key, value)
	if err != nil {
		return err
	}
	id, v, err := record.ReadPending(key, body, record.Sum(value))
	if err != nil {
		return err
	}
	f.sifter.totals.Remove(id, &v)                                          // keepPending counts it
	if _, lost := f.valueless[hashOf(record.VersionKey(id, v.Seq))]; lost { // guard 4.31
		return nil
	}
	if id != f.pending.id {
		if err := f.keepPending(); err != nil {
			return err
		}
	}
	f.pending = pendingRecord{id, v, bytes.Clone(key), bytes.Clone(value)}
	return nil
}

// keepPending writes the last pending write. Upstream may hold that, or an older one that is no longer known.
func (f *filler) keepPending() error {
	p := f.pending
	if f.pending = (pendingRecord{}); p.key == nil {
		return nil
	}
	f.sifter.totals.Add(p.id, &p.v)
	key := record.EntryKey(record.LeftPrefix, p.id)
	err := f.set(p.key, p.value)
	if err == nil {
		err = f.set(key, record.EncodeLeft(key, nil))
	}
	return err
}
