package recovery

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// build makes a journal of the records that check, and checks it.
func build(fsys vfs.FS, dir string, t *task) (err error) {
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
	if err = t.fill(made); err == nil {
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

// fill puts the records that check into a new store, and last the totals that count them.
func (t *task) fill(made *store.Store) error {
	f := filler{task: t, load: made.Load()}
	if err := t.source.each(f.take); err != nil {
		return err
	}
	if err := f.mark(); err != nil {
		return err
	}
	totals := f.sifter.totals
	totals.Batches = max(t.found.newest.Batches, made.Totals().Batches)
	totals.Seq = t.report.NextSeq - 1
	return f.load.Finish(totals)
}

// filler takes the records in the order of their keys: the sent marks come first, and the
// pending writes of one entry follow each other.
type filler struct {
	*task
	load   *store.Load
	sifter sifter
	// doubtful is the entry of the last pending write, and seq its number; 0 if there is none.
	doubtful record.ID
	seq      uint64
}

func (f *filler) take(key, value []byte) error {
	kind, ok := f.sifter.take(key, value)
	if bytes.Equal(key, record.GenerationsKey) {
		return nil // the recovered journal counts its receipts anew
	}
	listing := kind == record.HeaderPrefix || kind == record.RowPrefix
	if !ok || listing && f.report.Salvaged.Listings == 0 || kind == record.SettledPrefix && f.report.Salvaged.Settled == 0 {
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

// mark puts the entry of the last pending write in doubt: upstream may hold it, or an older one
// that is not known any more.
func (f *filler) mark() error {
	if f.seq == 0 {
		return nil
	}
	key := record.EntryKey(record.SentPrefix, f.doubtful)
	return f.load.Set(key, record.EncodeSent(key, &record.Sent{Seq: f.seq})) // guard 4.10
}
