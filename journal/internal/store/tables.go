package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

// span is a range of keys. Both ends are inclusive.
type span struct{ from, to []byte }

// copySpans are the ranges of records that may be lost, in order: the settled copies and the listings, because
// upstream can be asked for them again, the receipts, and the versions that are not pending, with their losses.
var copySpans = spansOf(func(k *record.Kind) bool { return k.Class == record.Copied || k.Class == record.Past })

// spansOf returns the ranges of some kinds, in order. Neighbours share one.
func spansOf(some func(*record.Kind) bool) (spans []span) {
	joins := false
	for _, k := range record.Kinds {
		from, to := k.Bounds()
		if joins && some(k) {
			spans[len(spans)-1].to = to
		} else if some(k) {
			spans = append(spans, span{from, to})
		}
		joins = some(k)
	}
	return spans
}

func (s span) contains(o span) bool {
	return bytes.Compare(s.from, o.from) <= 0 && bytes.Compare(o.to, s.to) <= 0
}

// copiesOnly reports whether a span can contain only copies, receipts and versions.
func (s span) copiesOnly() bool {
	return slices.ContainsFunc(copySpans, func(copies span) bool { return copies.contains(s) })
}

// table is one of the tables that Pebble reads.
type table struct {
	span
	file   string
	part   bool          // the file holds more than the table
	newest pebble.SeqNum // number of the newest record
}

func (t table) meets(s Span) bool {
	return bytes.Compare(s.From, t.to) <= 0 && bytes.Compare(t.from, s.To) < 0
}

// liveTables returns the tables that Pebble currently reads.
func liveTables(db *pebble.DB) ([]table, error) {
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	var tables []table
	for _, level := range levels {
		for _, t := range level {
			tables = append(tables, table{
				span: span{t.Smallest.UserKey, t.Largest.UserKey}, file: fmt.Sprintf("%06d.sst", uint64(t.BackingSSTNum)),
				part: t.Virtual, newest: t.LargestSeqNum,
			})
		}
	}
	return tables, nil
}

// checkTables reads every block of the tables in use, or of those that hold more than copies, receipts and versions. A newer
// table or log may hide an old record from readers, but not from Pebble when it merges tables. Errors: [record.ErrCorrupt].
func checkTables(opts Options, db *pebble.DB, all bool) error {
	tables, err := liveTables(db)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if !all && t.copiesOnly() {
			continue
		}
		if err := checkTable(opts.FS, opts.Dir, t.file); err != nil {
			return Classify(err)
		}
	}
	return nil
}

// OpenTable opens a table's file for reading without Pebble's cache.
func OpenTable(fsys vfs.FS, path string) (objstorage.Readable, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	file, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return file, nil
}

// checkTable reads every block of a table without Pebble's cache. Errors: [record.ErrCorrupt] for a
// block that is damaged or cannot be read, and those of the file system.
func checkTable(fsys vfs.FS, dir, name string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: table %s: %v", record.ErrCorrupt, name, p)
		}
	}()
	file, err := OpenTable(fsys, fsys.PathJoin(dir, name))
	if err != nil {
		return err
	}
	r, err := sstable.NewReader(context.Background(), file, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(damagedTable(name, err), file.Close())
	}
	return errors.Join(damagedTable(name, checkBlocks(r)), r.Close())
}

func checkBlocks(r *sstable.Reader) error {
	if err := r.ValidateBlockChecksums(); err != nil {
		return err
	}
	layout, err := r.Layout()
	if err != nil || len(layout.ValueBlock) == 0 {
		return err
	}
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	for kv := it.First(); kv != nil; kv = it.Next() { // the checksums above cover all other blocks
		if _, _, err := kv.Value(nil); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func damagedTable(name string, err error) error {
	if err == nil || isErrno(err) && !diskfs.IsUnreadable(err) {
		return err
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("%w: table %s is damaged: %s", record.ErrCorrupt, name, text)
}
