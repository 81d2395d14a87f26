package journal

import (
	"errors"

	"github.com/botwired/botwired/journal/internal/store"
)

// Disk reports how much disk space a journal takes, and drops copies at a person's request. Its methods
// may be called concurrently.
type Disk struct {
	store   *store.Store
	evictor *evictor
}

// DiskUsage is in bytes. It may not include the files written last.
type DiskUsage struct {
	Journal int64 // everything else
	Copies  int64 // settled copies, listings and the history
	Free    int64 // on the journal's disk, for this user; negative if the system does not report it
}

// Usage measures the files. It blocks no other call, and takes about a millisecond.
func (d *Disk) Usage() (u DiskUsage, err error) {
	if err := d.store.Acquire(); err != nil {
		return u, err
	}
	defer d.store.Release()
	all, free, err := store.Space(d.store)
	if err != nil {
		return u, err
	}
	u.Free = free
	u.Copies, err = d.evictor.usage()
	u.Copies = max(0, u.Copies-d.store.Totals().PendingBytes)
	u.Journal = max(0, all-u.Copies)
	return u, err
}

// ErrPending refuses to forget an entry that has a pending write.
var ErrPending = errors.New("a write to the entry is pending")

// Forget drops an entry's settled copy, so that the next reader asks upstream. It reports whether there
// was a copy. A caller that caches the journal's answers must drop its answer, too.
//
// Errors: [ErrPending], [ErrClosed], [ErrFailed], and those of the file system.
func (d *Disk) Forget(id ID) (forgotten bool, err error) {
	if err := d.store.Acquire(); err != nil {
		return false, err
	}
	defer d.store.Release()
	if err := d.store.Look(); err != nil {
		return false, err
	}
	_, pending, err := d.evictor.pending.visible(id)
	switch {
	case err != nil:
		return false, err
	case pending: // guard 13.35
		return false, ErrPending
	}
	r := &removal{evictor: d.evictor, of: []copyOnDisk{{id: id}}, unlock: d.evictor.copies.lock(id.Namespace), byHand: true}
	defer r.unlock()
	found, err := d.evictor.copies.readHead(id)
	if err != nil || !found.kept {
		return false, err
	}
	err = d.store.Update(r)
	if err == nil && r.removed == 0 {
		err = ErrPending // a write to the entry arrived meanwhile
	}
	return r.removed > 0, err
}
