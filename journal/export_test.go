package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// EntryMemory is the number of bytes that the budget counts for a pending write on top of its
// namespace, key and value.
const EntryMemory = queue.EntryBytes

// WithoutPause returns o without the pauses for a full disk.
func WithoutPause(o Options) Options {
	o.fullDiskPause = 1
	return o
}

// Rebuild runs the part of [Journal.Run] that builds the index.
func (j *Journal) Rebuild(ctx context.Context) error {
	return j.store.Use(func() error { return j.rebuild(ctx) })
}

// errChecked makes the store refuse the change that runs a check.
var errChecked = errors.New("checked")

// IsDamage reports whether an error is damage of the store.
func IsDamage(err error) bool { return store.IsDamage(err) }

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
	versions, err := store.NewVersions(db)
	if err != nil {
		return err
	}
	defer func() { _ = versions.Close() }()
	var last ID
	found, err := store.Count(db, func(id ID, v record.Pending) error {
		if last == id {
			return fmt.Errorf("%s has two pending records", id)
		}
		last = id
		_, err := versions.Find(id, v.Seq)
		return err
	})
	if err != nil {
		return err
	}
	if err := want.Compare(found); err != nil {
		return err
	}
	if err := checkCopies(db); err != nil {
		return err
	}
	return errors.Join(j.queue.Letters.Check(db), j.entries.CheckLosses(db))
}

// checkCopies checks that the version of each settled copy is there.
func checkCopies(db pebble.Reader) error {
	return store.ScanPrefix(db, []byte(record.SettledPrefix), func(key, body []byte, _ uint32) error {
		id, err := record.ParseEntryKey(record.SettledPrefix, key)
		if err != nil {
			return err
		}
		_, _, seq, err := record.DecodeSettled(body)
		if err != nil || seq == 0 {
			return err
		}
		if _, ok, err := store.ReadVersion(db, id, seq); err != nil || !ok {
			return fmt.Errorf("version %d of the copy of %s: found %v, %w", seq, id, ok, err)
		}
		return nil
	})
}

// Unmark removes the mark from a superseded dead letter in the store. The next start finds it so.
func (j *Journal) Unmark(seq uint64) error {
	l, err := queue.ReadDead(j.store.DB(), seq)
	if err != nil {
		return err
	}
	return j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		tx.DeleteDead(&l)
		l.SupersededBy = 0
		tx.SetDead(&l)
		return nil
	}))
}

// PutBackConflict makes the dead letter of an older botwired of a version that is lost, and removes the version.
func (j *Journal) PutBackConflict(seq uint64, sealed []byte) error {
	body, err := record.Unseal(record.DeadKey(seq), sealed)
	if err != nil {
		return err
	}
	l, err := record.DecodeDead(seq, body)
	if err != nil {
		return err
	}
	return j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		tx.Set(record.DeadKey(seq), sealed)
		tx.Delete(record.LossKey(l.ID, seq))
		tx.Delete(record.VersionKey(l.ID, seq))
		totals := tx.Totals()
		totals.AddDead(&l)
		tx.SetTotals(totals)
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
func PendingKey(id ID, seq uint64) string { return string(record.AppendPendingKey(nil, id, seq)) }

// VersionKey returns the key of a version's record.
func VersionKey(id ID, seq uint64) string { return string(record.VersionKey(id, seq)) }

// DeadKey returns the key of a dead letter's record.
func DeadKey(seq uint64) string { return string(record.DeadKey(seq)) }

// NotDurable returns how many entries and listings make readers wait.
func (j *Journal) NotDurable() int {
	hidden, _ := j.queue.Readers.Count()
	return hidden
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

// DropCopies drops the settled copies and the history, as under disk pressure.
func (j *Journal) DropCopies() error { return j.DropCopiesWhile(func() {}) }

// DropCopiesWhile drops the settled copies, as under disk pressure, and calls during between the copies
// and their versions.
func (j *Journal) DropCopiesWhile(during func()) error {
	_, err := j.entries.Drop(context.Background(), record.SettledPrefix)
	during()
	_, dropped := j.entries.Drop(context.Background(), record.VersionPrefix)
	return errors.Join(err, dropped)
}

// EvictCopies drops the settled copies, and leaves the history.
func (j *Journal) EvictCopies(ctx context.Context) error {
	_, err := j.entries.Drop(ctx, record.SettledPrefix)
	return err
}

// StateAfter looks up an entry with a pending write, and calls during between the index and the store.
func (j *Journal) StateAfter(id ID, during func()) (State, error) {
	v, _, err := j.queue.Visible(id)
	if err != nil {
		return State{}, err
	}
	during()
	return j.pendingState(id, &v)
}

// CopiesLocked reports whether the copies lock of a namespace is held.
func (j *Journal) CopiesLocked(namespace string) bool {
	unlock, ok := j.entries.TryLock(namespace)
	unlock()
	return !ok
}

// PendingRecords returns how many records of pending writes the store holds.
func (j *Journal) PendingRecords() (n int, err error) {
	_, err = store.Count(j.DB(), func(ID, record.Pending) error { n++; return nil })
	return n, err
}

// ConfirmedAt sets the confirmation time of an entry's copy, and of its namespace's listing.
func (j *Journal) ConfirmedAt(id ID, at time.Time) error {
	seconds := float64(at.UnixMicro()) / 1e6
	return j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		key := record.EntryKey(record.SettledPrefix, id)
		found, err := store.Get(j.store.DB(), key, func(body []byte) error {
			o, _, version, err := record.DecodeSettled(body)
			tx.Set(key, record.EncodeSettled(key, &o, seconds, version))
			header := record.HeaderKey(id.Namespace)
			tx.Set(header, record.EncodeHeader(header, record.Header{FetchedAt: seconds, Newest: o.UpdatedAt, Complete: true}))
			return err
		})
		if err == nil && !found {
			err = errors.New("there is no copy")
		}
		return err
	}))
}

// Evict removes copies and listings down to a budget.
func (j *Journal) Evict(budget int64) error {
	_, err := j.entries.Evict(context.Background(), budget)
	return err
}

// DropListing removes a listing, as an eviction does.
func (j *Journal) DropListing(namespace string) error {
	_, err := j.entries.DropListing(namespace)
	return err
}

// BoundHistory makes one pass over the versions.
func (j *Journal) BoundHistory(budget int64) error {
	_, err := j.entries.TrimHistory(context.Background(), budget)
	return err
}

// GiveUpReceipts removes all receipts.
func (j *Journal) GiveUpReceipts() error { return j.queue.GiveUpReceipts() }

// Versions returns the numbers of an entry's versions in the store.
func (j *Journal) Versions(id ID) (seqs []uint64, err error) {
	err = store.ScanPrefix(j.store.DB(), record.VersionsOf(id), func(key, _ []byte, _ uint32) error {
		_, seq, err := record.ParseVersionKey(key)
		seqs = append(seqs, seq)
		return err
	})
	return seqs, err
}

// Shown returns the numbers of the versions that are no write of this journal.
func (j *Journal) Shown() (seqs []uint64, err error) {
	err = store.ScanPrefix(j.store.DB(), []byte(record.VersionPrefix), func(key, body []byte, _ uint32) error {
		v, err := record.DecodeVersion(body)
		if err != nil || !v.Shown {
			return err
		}
		_, seq, err := record.ParseVersionKey(key)
		seqs = append(seqs, seq)
		return err
	})
	return seqs, err
}

// MaintainOnce runs one round of Maintain.
func (j *Journal) MaintainOnce() error {
	m := &maintainer{Journal: j, compacted: make(map[string]extent)}
	return m.once(context.Background())
}

// allRows is more rows than a test's listing has.
const allRows = 1 << 40

// HoldSnapshot keeps a snapshot open until the caller calls release.
func (j *Journal) HoldSnapshot() (release func()) {
	snapshot := j.store.Snapshot()
	return func() { _ = snapshot.Close() }
}

// CountRemoval does what the removal of somebody's version does to those who have read one. The caller is in the store's order.
func (j *Journal) CountRemoval() { j.store.Removals.Add(1) }

// CountRemovalInOrder does the same for a caller who is not.
func (j *Journal) CountRemovalInOrder() error {
	return j.store.Update(store.ChangeFunc(func(*store.Tx) error {
		j.CountRemoval()
		return nil
	}))
}
