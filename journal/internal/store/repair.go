package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

const (
	// repairFile is the file to which [Store.Repair] writes the records that it keeps.
	repairFile = "repair.new"
	// repairPatience bounds how long all callers wait for memory to be flushed to tables. On a disk
	// that is full or very slow, the repair is postponed.
	repairPatience = 5 * time.Second
	// repairPause is the time between a repair that found no room and the next one. All callers wait while
	// a repair writes what it keeps.
	repairPause = 30 * time.Second
	// damageShare is the part of the full-disk pause, 1 in damageShare, for which another read of a
	// damaged table waits. Pebble retries merging tables without a pause, even if it cannot read them.
	damageShare = 10
)

// damage collects the tables in which Pebble has met damage since the store was opened. Its methods
// may be called concurrently.
type damage struct {
	mu    sync.Mutex
	files map[string]bool // true: [Store.Repair] must check the table
	count atomic.Int64    // number of damaged tables
}

// note records that the table is damaged, and reports whether this is its first damage.
func (d *damage) note(file string) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files == nil {
		d.files = make(map[string]bool)
	}
	_, known := d.files[file] // a merge may still read a table that was replaced
	d.files[file] = true
	if !known {
		d.count.Add(1)
	}
	return !known
}

func (d *damage) has(file string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[file]
}

func (d *damage) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, noted := range d.files {
		if noted {
			return true
		}
	}
	return false
}

func (d *damage) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for file := range d.files {
		d.files[file] = false
	}
}

// meetDamage records the damage that Pebble meets in a table. It does not end the journal: the reader
// of a record judges the damage, and [Store.Repair] repairs the table.
func (e *engine) meetDamage(info pebble.DataCorruptionInfo) {
	file := e.opts.FS.PathBase(info.Path)
	if !e.damage.note(file) {
		time.Sleep(e.opts.FullDiskPause / damageShare)
		return
	}
	e.opts.Logger.Warn("a table of the journal is damaged: settled copies in it are asked of upstream anew; "+
		"if pending writes are damaged too, botwired ends, and \"botwired recover\" salvages what it can",
		"file", file, "error", OneLine(info.Details))
}

// DamagedTables returns how many tables were found damaged since the store was opened.
func (s *Store) DamagedTables() int64 { return s.damage.count.Load() }

// FindDamage reads every block of the tables that hold more than copies, receipts and versions, so that
// [Store.Repair] knows of damage that otherwise only a merge of tables would meet. The versions of pending
// writes are read when the index is built.
func (s *Store) FindDamage(ctx context.Context) error {
	tables, err := liveTables(s.db)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		if t.copiesOnly() {
			continue
		}
		if bad, err := s.isDamaged(t); err != nil {
			return err
		} else if bad {
			s.damage.note(t.file)
		}
	}
	return nil
}

// isDamaged reads every block of a table and reports whether the table is damaged.
func (s *Store) isDamaged(t table) (bool, error) {
	err := checkTable(s.opts.FS, s.opts.Dir, t.file)
	switch {
	case errors.Is(err, record.ErrCorrupt):
		return true, nil
	case errors.Is(err, fs.ErrNotExist): // Pebble has merged it into others meanwhile
		return false, nil
	}
	return false, err
}

// Repair replaces the damaged tables, so that no merge of tables meets the damage again. In their key
// range, it drops the receipts, the settled copies and listings, which upstream still has, and the
// versions that are not pending; settled copies elsewhere that need one of these go first. It rewrites
// all other records in one atomic change. Nothing else uses the store meanwhile, and the caller must not
// have acquired it. Repair calls replaced before others use the store again.
//
// Without room on the disk, Repair returns nil, and a call after repairPause tries again.
//
// Errors: [record.ErrCorrupt] if Repair cannot read a record that it would keep, [ErrClosed], those of
// ctx, and those of the file system. Unless the last step fails, an error leaves all but copies unchanged.
func (s *Store) Repair(ctx context.Context, replaced func()) error {
	if !s.damage.any() {
		return nil
	}
	if ready, err := s.readyToRepair(ctx); err != nil || !ready {
		return err
	}
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return ErrClosed
	}
	tables, err := liveTables(s.db)
	if err != nil {
		return err
	}
	damaged, found, err := s.damagedSpan(tables)
	if err != nil || !found {
		return err
	}
	if err := s.dropCopiesOf(damaged); err != nil {
		return err
	}
	// Pebble gives the change its own sequence number, which no log contains. After this flush a new
	// log begins, so the gap lies between two logs, and only the later log is checked.
	if s.flushSoon(ctx) != nil {
		return ctx.Err()
	}
	if err := s.replace(ctx, damaged); err != nil {
		left := s.removeRepair()
		if left == nil && diskfs.IsFull(err) { // guard 3.59
			s.repairAfter = time.Now().Add(repairPause) // guard 3.60
			return nil
		}
		return errors.Join(err, left)
	}
	replaced()
	s.damage.clear()
	s.opts.Logger.Warn("damaged tables were replaced: settled copies in them are asked of upstream anew")
	return nil
}

// readyToRepair flushes most of the memory to tables first, so that callers wait less for the flush
// under the lock. A nearly full disk postpones the repair, because it needs room, and so does a repair that
// found none.
func (s *Store) readyToRepair(ctx context.Context) (bool, error) {
	if err := s.Acquire(); err != nil {
		return false, err
	}
	defer s.Release()
	s.Look()
	if s.Pressure() || time.Now().Before(s.repairAfter) || s.flushSoon(ctx) != nil {
		return false, ctx.Err()
	}
	return true, nil
}

func (s *Store) flushSoon(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, repairPatience)
	defer cancel()
	return s.Flush(soon) // guard 4.23
}

// damagedSpan returns a key range that contains every damaged table completely. Pebble cuts the tables
// that are only partly in the range; these are readable. found is false if no table is damaged now.
func (s *Store) damagedSpan(tables []table) (all span, found bool, err error) {
	sound := make(map[string]bool)
	for changed := true; changed; {
		changed = false
		for _, t := range tables {
			cut := found && all.overlaps(t.span) // guard 4.25
			if sound[t.file] || found && all.contains(t.span) || !cut && !s.damage.has(t.file) {
				continue
			}
			bad, err := s.isDamaged(t)
			if err != nil {
				return all, false, err
			}
			if sound[t.file] = !bad; !bad {
				continue
			}
			if !found {
				all = t.span
			}
			all, found, changed = all.union(t.span), true, true
			// guard 4.24
			if all.overlaps(listingSpan) { // a listing is dropped as a whole
				all = all.union(listingSpan)
			}
		}
	}
	if !found {
		s.damage.clear()
	}
	return all, found, nil
}

// droppedAtOnce is the number of copies that one change drops.
const droppedAtOnce = 4096

// dropCopiesOf drops the settled copies before a key range whose version is in the range. It is a normal
// change, so it comes before the flush of Repair.
func (s *Store) dropCopiesOf(all span) error {
	from, to := bounds(record.SettledPrefix)
	if bytes.Compare(all.to, []byte(record.VersionPrefix)) < 0 || bytes.Compare(all.from, from) <= 0 {
		return nil
	}
	if bytes.Compare(all.from, to) < 0 {
		to = all.from // the others go with the range
	}
	var keys [][]byte
	drop := func() error {
		if len(keys) == 0 {
			return nil
		}
		err := s.Update(ChangeFunc(func(tx *Tx) error {
			for _, key := range keys {
				tx.Delete(key)
			}
			return nil
		}))
		keys = nil
		return err
	}
	err := Each(s.db, from, to, func(key, value []byte) error {
		if !needsVersionIn(all, key, value) { // guard 4.32
			return nil
		}
		if keys = append(keys, bytes.Clone(key)); len(keys) < droppedAtOnce {
			return nil
		}
		return drop()
	})
	if err != nil && !IsDamage(err) { // damaged copies are for the next repair
		return err
	}
	return drop()
}

func needsVersionIn(all span, key, sealed []byte) bool {
	name, err := record.VersionOfSettled(key, sealed)
	return err == nil && all.contains(span{name, name})
}

func (s *Store) repairName() string { return s.opts.FS.PathJoin(s.opts.Dir, repairFile) }

// removeRepair removes what a repair that has failed, or was cut off, has written.
func (s *Store) removeRepair() error { return s.opts.FS.RemoveAll(s.repairName()) }

// replace drops all copies and receipts in a key range, and rewrites the other records.
func (s *Store) replace(ctx context.Context, all span) error {
	path := s.repairName()
	kept, err := s.writeKept(path, all)
	if err != nil {
		return Classify(err)
	}
	keys := pebble.KeyRange{Start: all.from, End: append(bytes.Clone(all.to), 0)}
	return s.failOnPanic(func() error {
		if kept == 0 {
			return errors.Join(s.db.Excise(ctx, keys), s.removeRepair())
		}
		_, err := s.db.IngestAndExcise(ctx, []string{path}, nil, nil, keys)
		return err
	})
}

// writeKept writes a table of the records of a range that must not be lost: pending writes with their
// versions, what requests may have left upstream, dead letters and the state record. It adds what eachNewest finds.
func (s *Store) writeKept(path string, all span) (n int, err error) {
	f, err := s.opts.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{
		TableFormat: s.db.TableFormat(), FilterPolicy: bloom.FilterPolicy(filterBits), FilterType: sstable.TableFilter,
	})
	for _, part := range all.withoutCopies() {
		err = Each(s.db, part.from, part.to, func(key, value []byte) error {
			if _, err := record.Unseal(key, value); err != nil {
				return fmt.Errorf("record %q: %w", key[:min(2, len(key))], err)
			}
			n++
			return w.Set(key, value)
		})
		if err != nil {
			return n, errors.Join(err, w.Close())
		}
	}
	// guard 23.38
	err = s.eachNewest(all, func(key, sealed []byte) error {
		n++
		return w.Set(key, sealed)
	})
	if err != nil {
		return n, errors.Join(err, w.Close())
	}
	// guard 4.30
	err = s.eachPendingVersion(all, func(key, sealed []byte) error {
		n++
		return w.Set(key, sealed)
	})
	return n, errors.Join(err, w.Close())
}

// eachNewest visits the newest states that are known of entries in a range, in order, as far as they can be read:
// upstream cannot be asked for them again, and a start needs none of them.
func (s *Store) eachNewest(all span, visit func(key, sealed []byte) error) error {
	from, to := bounds(record.NewestPrefix)
	if !all.overlaps(span{from, to}) {
		return nil
	}
	if bytes.Compare(from, all.from) < 0 {
		from = all.from
	}
	if end := append(bytes.Clone(all.to), 0); bytes.Compare(end, to) < 0 {
		to = end
	}
	err := Each(s.db, from, to, func(key, value []byte) error {
		if _, err := record.Unseal(key, value); err != nil {
			return nil //nolint:nilerr // it goes
		}
		return visit(key, value)
	})
	if IsDamage(err) {
		return nil
	}
	return err
}

// eachPendingVersion visits the versions of pending writes in a range, in order. Errors:
// [record.ErrCorrupt] if one of them cannot be read.
func (s *Store) eachPendingVersion(all span, visit func(key, sealed []byte) error) (err error) {
	prefix := []byte(record.VersionPrefix)
	to := append(bytes.Clone(all.to), 0)
	if bytes.Compare(to, prefix) <= 0 {
		return nil
	}
	from := all.from
	if bytes.Compare(from, prefix) < 0 {
		from = prefix
	}
	versions, err := NewVersions(s.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, versions.Close()) }()
	return Scan(s.db, record.PendingOfVersion(from), record.PendingOfVersion(to), func(key, body []byte, sum uint32) error {
		id, v, err := record.ReadPending(key, body, sum)
		if err != nil {
			return err
		}
		sealed, err := versions.Find(id, v.Seq)
		if err != nil {
			return err
		}
		return visit(record.VersionKey(id, v.Seq), sealed)
	})
}

// withoutCopies returns the parts of a span without copies, receipts and versions. Their ends are
// exclusive.
func (s span) withoutCopies() (parts []span) {
	rest := span{s.from, append(bytes.Clone(s.to), 0)}
	for _, copies := range copySpans {
		if !rest.overlaps(copies) {
			continue
		}
		if bytes.Compare(rest.from, copies.from) < 0 {
			parts = append(parts, span{rest.from, copies.from}) // guard 4.22
		}
		rest.from = copies.to
	}
	if bytes.Compare(rest.from, rest.to) < 0 {
		parts = append(parts, rest)
	}
	return parts
}
