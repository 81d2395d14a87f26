package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// WithoutPause is o with nothing held back on a full disk.
func WithoutPause(o Options) Options {
	o.fullDiskPause = 1
	return o
}

// Check compares, at one moment, the state record in the store with what a scan of
// the same store finds, and what the journal keeps in memory with both.
func (j *Journal) Check() error {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	if err := j.applyGathered(); err != nil {
		return err
	}
	snapshot := j.db.NewSnapshot()
	defer func() { _ = snapshot.Close() }()
	want, err := readTotals(snapshot)
	if err != nil {
		return err
	}
	if want != j.totals {
		return fmt.Errorf("totals are %+v in memory and %+v in the store", j.totals, want)
	}
	var found totals
	var superseded int64
	var last retired
	err = scanPending(snapshot, []byte(pendingPrefix), func(id ID, v version) error {
		found.add(id, &v)
		found.seq = max(found.seq, v.seq)
		if last.id == id {
			superseded += last.v.size(id)
		}
		last = retired{id, v}
		return nil
	})
	if err != nil {
		return err
	}
	if err := scanDead(snapshot, func(l DeadLetter) { found.dead++; found.deadBytes += l.size() }); err != nil {
		return err
	}
	if err := compareTotals(found, want); err != nil {
		return err
	}
	if j.index.complete() && superseded != j.superseded {
		return fmt.Errorf("%d bytes are superseded in memory and %d in the store", j.superseded, superseded)
	}
	return nil
}

// Damage changes the store behind the journal's back: value nil removes the record.
func (j *Journal) Damage(key string, value []byte) error {
	if value == nil {
		return j.db.Delete([]byte(key), pebble.Sync)
	}
	return j.db.Set([]byte(key), value, pebble.Sync)
}

// Flip changes one bit of a record's last field behind the journal's back.
func (j *Journal) Flip(key string) error {
	value, closer, err := j.db.Get([]byte(key))
	if err != nil {
		return err
	}
	changed := append([]byte(nil), value...)
	changed[len(changed)-sumSize-1] ^= 1
	return errors.Join(closer.Close(), j.Damage(key, changed))
}

// AloneEnv is set for a test's own process, see alone.
const AloneEnv = "JOURNAL_TEST_ALONE"

// PendingKey is the key of a pending write's record.
func PendingKey(id ID, seq uint64) string { return string(pendingKey(id, seq)) }

// DeadKey is the key of a dead letter's record.
func DeadKey(seq uint64) string { return string(deadKey(seq)) }

// Filling is how many entries and listings readers wait for.
func (j *Journal) Filling() int {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return len(j.filling)
}

// FlushTables has Pebble write its tables.
func (j *Journal) FlushTables() error { return j.db.Flush() }

// RotateLog has Pebble begin a new log, and write the old one's records into a table.
func (j *Journal) RotateLog() error {
	return j.catch(func() error { _, err := j.db.AsyncFlush(); return err })
}

// MarkNow marks what is durable, as happens by itself after a second.
func (j *Journal) MarkNow() { j.markNow() }

// DropCopies gives up the settled copies, as happens when the disk is nearly full.
func (j *Journal) DropCopies() error { return j.dropCopies() }
