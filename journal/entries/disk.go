package entries

import (
	"errors"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Disk reports how much disk space a journal takes, and drops copies at a person's request. Its methods
// may be called concurrently.
type Disk struct {
	entries *Entries
}

// DiskUsage is in bytes. It may not include the files written last.
type DiskUsage struct {
	Journal int64 // everything else
	Copies  int64 // settled copies, listings and the history
	Free    int64 // on the journal's disk, for this user; negative if the system does not report it
}

// Usage measures the files. It blocks no other call, and takes about a millisecond.
func (d *Disk) Usage() (u DiskUsage, err error) {
	if err := d.entries.store.Acquire(); err != nil {
		return u, err
	}
	defer d.entries.store.Release()
	all, free, err := store.Space(d.entries.store)
	if err != nil {
		return u, err
	}
	u.Free = free
	u.Copies, err = d.entries.usage()
	u.Copies = max(0, u.Copies-d.entries.store.Totals().PendingBytes)
	u.Journal = max(0, all-u.Copies)
	return u, err
}

// ErrPending refuses to forget an entry that has a pending write.
var ErrPending = errors.New("a write to the entry is pending")

// Forget drops an entry's settled copy, so that the next reader asks upstream. It reports whether there
// was a copy. A caller that caches the journal's answers must drop its answer, too.
//
// Errors: [ErrPending], [store.ErrClosed], [store.ErrFailed], and those of the file system.
func (d *Disk) Forget(id ID) (forgotten bool, err error) {
	if err := d.entries.store.Acquire(); err != nil {
		return false, err
	}
	defer d.entries.store.Release()
	d.entries.store.Look()
	c := d.entries
	if err := c.queue.FaultIn(id); err != nil {
		return false, err
	}
	unlock := c.Lock(id.Namespace)
	defer unlock()
	found, err := c.readHead(id)
	if err != nil {
		return false, err
	}
	err = d.entries.store.Update(&earlyChange{
		ChangeFunc: func(tx *store.Tx) error {
			if c.queue.IsPending(id) { // guard 13.35
				return ErrPending
			}
			if found.kept {
				tx.Delete(record.EntryKey(record.SettledPrefix, id))
				c.unname(&found)
			}
			c.dropNewest(tx, id)
			return nil
		},
		applied: unlock,
	})
	return found.kept && err == nil, err
}
