package recovery

import (
	"bytes"
	"errors"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// storeOptions returns options for a store that nothing else uses.
func storeOptions(fsys vfs.FS, dir string) store.Options {
	return store.Options{Dir: dir, FS: fsys, Readers: new(sync.Mutex), Logger: slog.New(slog.DiscardHandler)}
}

// content describes a journal to build.
type content struct {
	records           source
	listings, settled bool // whether to include these records
	batches, lastSeq  uint64
	written           func() // called for each record
}

// build creates a journal from the records that pass their checks, and checks the result.
func build(fsys vfs.FS, dir string, c *content) (err error) {
	if err := fsys.MkdirAll(dir, diskfs.DirMode); err != nil {
		return err
	}
	opts := storeOptions(fsys, dir)
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
	err = errors.Join(err, made.Close())
	return errors.Join(failure, err)
}

// compare checks a store against its own state record.
func compare(made *store.Store) error {
	found, err := store.Count(made.DB(), func(record.ID, record.Version) error { return nil })
	if err != nil {
		return err
	}
	want := made.Totals()
	return want.Compare(found)
}

// fill writes the records that pass their checks to a new store, and then the totals that count them.
func (c *content) fill(made *store.Store) error {
	f := filler{content: c, load: made.Load()}
	if err := c.records.each(f.take); err != nil {
		return err
	}
	if err := f.mark(); err != nil {
		return err
	}
	totals := f.sifter.totals
	totals.Batches = max(c.batches, made.Totals().Batches)
	totals.Seq = c.lastSeq
	return f.load.Finish(totals)
}

// filler takes the records in key order: the sent marks come first, and one entry's pending writes are
// adjacent.
type filler struct {
	*content
	load   *store.Load
	sifter sifter
	// doubtful is the entry of the last pending write, and seq the write's number; 0 if there is none.
	doubtful record.ID
	seq      uint64
}

func (f *filler) take(key, value []byte) error {
	kind, ok := f.sifter.take(key, value)
	if bytes.Equal(key, record.GenerationsKey) {
		return nil // the recovered journal counts its receipts again
	}
	listing := kind == record.HeaderPrefix || kind == record.RowPrefix
	if !ok || listing && !f.listings || kind == record.SettledPrefix && !f.settled {
		return nil
	}
	if kind == record.PendingPrefix {
		id, seq, err := record.ParsePendingKey(key)
		if err != nil {
			return err
		}
		if id != f.doubtful {
			if err := f.mark(); err != nil {
				return err
			}
		}
		f.doubtful, f.seq = id, seq
	}
	f.written()
	return f.load.Set(key, value)
}

// mark puts the entry of the last pending write in doubt: upstream may hold that write, or an older one
// that is no longer known.
func (f *filler) mark() error {
	if f.seq == 0 {
		return nil
	}
	key := record.EntryKey(record.SentPrefix, f.doubtful)
	return f.load.Set(key, record.EncodeSent(key, &record.Sent{Seq: f.seq})) // guard 4.10
}
