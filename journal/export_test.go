package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// EntryMemory is the number of bytes that the budget counts for a pending write on top of its
// namespace, key and value.
const EntryMemory = entryMemory

// WithoutPause returns o without the pauses for a full disk and a damaged table.
func WithoutPause(o Options) Options {
	o.fullDiskPause = 1
	return o
}

// Rebuild runs the part of [Journal.Run] that builds the index.
func (j *Journal) Rebuild(ctx context.Context) error {
	return j.use(func() error { return j.rebuild(ctx) })
}

// errChecked makes the store refuse the change that runs a check.
var errChecked = errors.New("checked")

// Check compares, at one moment, the state record in the store with a scan of the store, and both with
// the journal's memory.
func (j *Journal) Check() error {
	var found error
	err := j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		found = j.check(tx)
		return errChecked
	}))
	if !errors.Is(err, errChecked) {
		return err
	}
	return found
}

func (j *Journal) check(tx *store.Tx) error {
	db, err := tx.Reader()
	if err != nil {
		return err
	}
	want, err := store.ReadTotals(db)
	if err != nil {
		return err
	}
	if want != tx.Totals() {
		return fmt.Errorf("totals are %+v in memory and %+v in the store", tx.Totals(), want)
	}
	var supersededBytes, supersededWrites int64
	var last retired
	found, err := store.Count(db, func(id ID, v record.Version) error {
		if last.id == id {
			supersededWrites, supersededBytes = supersededWrites+1, supersededBytes+last.v.Size(id)
		}
		last = retired{id, v}
		return nil
	})
	if err != nil {
		return err
	}
	if err := want.Compare(found); err != nil {
		return err
	}
	s := &j.pending.superseded
	if !j.pending.rebuilding() && (s.bytes.Load() != supersededBytes || s.writes.Load() != supersededWrites) {
		return fmt.Errorf("%d bytes of %d writes are superseded in memory and %d of %d in the store",
			s.bytes.Load(), s.writes.Load(), supersededBytes, supersededWrites)
	}
	return j.dead.check(db)
}

// check compares the index with the store, if it is complete.
func (d *deadIndex) check(db pebble.Reader) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed != nil {
		return nil
	}
	want := newDeadIndex(nil)
	err := store.ScanDead(db, 0, func(l *record.Dead) error {
		want.insert(l)
		return nil
	})
	for _, seqs := range d.unmarked {
		slices.Sort(seqs)
	}
	if err == nil && (want.open != d.open || !maps.Equal(want.known, d.known) || !maps.EqualFunc(want.unmarked, d.unmarked, slices.Equal)) {
		err = fmt.Errorf("of the dead letters, %v %v are known, and the store has %v %v", d.known, d.unmarked, want.known, want.unmarked)
	}
	return err
}

// Unmark removes the mark from a superseded dead letter.
func (j *Journal) Unmark(seq uint64) error {
	l, err := readDead(j.store.DB(), seq)
	if err != nil {
		return err
	}
	return j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		l.SupersededBy = 0
		j.dead.set(tx, &l)
		return nil
	}))
}

// DB returns Pebble, bypassing the journal.
func (j *Journal) DB() *pebble.DB { return j.store.DB().(*pebble.DB) }

// Batches returns how many batches were applied.
func (j *Journal) Batches() uint64 { return j.store.Totals().Batches }

// Damage changes the store directly; value nil removes the record.
func (j *Journal) Damage(key string, value []byte) error {
	if value == nil {
		return j.DB().Delete([]byte(key), pebble.Sync)
	}
	return j.DB().Set([]byte(key), value, pebble.Sync)
}

// Flip changes one bit of a record's last field directly in the store.
func (j *Journal) Flip(key string) error {
	value, closer, err := j.DB().Get([]byte(key))
	if err != nil {
		return err
	}
	changed := append([]byte(nil), value...)
	changed[len(changed)-4-1] ^= 1 // before the checksum
	return errors.Join(closer.Close(), j.Damage(key, changed))
}

// AloneEnv is set in a test's separate process: see alone.
const AloneEnv = "JOURNAL_TEST_ALONE"

// PendingKey returns the key of a pending write's record.
func PendingKey(id ID, seq uint64) string { return string(record.PendingKey(id, seq)) }

// DeadKey returns the key of a dead letter's record.
func DeadKey(seq uint64) string { return string(record.DeadKey(seq)) }

// NotDurable returns how many entries and listings make readers wait.
func (j *Journal) NotDurable() int {
	j.pending.readers.RLock()
	defer j.pending.readers.RUnlock()
	return len(j.copies.notDurable)
}

// FlushTables makes Pebble write its tables.
func (j *Journal) FlushTables() error { return j.DB().Flush() }

// RotateLog makes Pebble begin a new log, and write the old one's records into a table.
func (j *Journal) RotateLog() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // do not wait for the table
	if err := j.store.Flush(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// MarkNow writes the mark, as the timer does within a second.
func (j *Journal) MarkNow() { j.store.MarkNow() }

// DropCopies drops the settled copies, as under disk pressure.
func (j *Journal) DropCopies() error { return j.evictor.dropAll(context.Background()) }

// CopiesLocked reports whether the copies lock of a namespace is held.
func (j *Journal) CopiesLocked(namespace string) bool {
	s := j.copies.stripe(namespace)
	if !s.TryLock() {
		return true
	}
	s.Unlock()
	return false
}

// PendingRecords returns how many records of pending writes the store holds.
func (j *Journal) PendingRecords() (n int, err error) {
	_, err = store.Count(j.DB(), func(ID, record.Version) error { n++; return nil })
	return n, err
}

// ConfirmedAt sets the confirmation time of an entry's copy, and of its namespace's listing.
func (j *Journal) ConfirmedAt(id ID, at time.Time) error {
	seconds := float64(at.UnixMicro()) / 1e6
	return j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		found, err := j.copies.read(id)
		if err != nil {
			return err
		}
		j.copies.set(tx, id, &found.Observation, seconds)
		setHeader(tx, id.Namespace, record.Header{FetchedAt: seconds, Newest: found.UpdatedAt, Complete: true})
		return nil
	}))
}

// Evict removes copies and listings down to a budget.
func (j *Journal) Evict(budget int64) error {
	_, err := j.evictor.evict(context.Background(), budget)
	return err
}

// MaintainOnce runs one round of Maintain.
func (j *Journal) MaintainOnce() error {
	m := &maintainer{Journal: j, compacted: make(map[string]extent)}
	return m.once(context.Background())
}

// allRows is more rows than a test's listing has.
const allRows = 1 << 40
