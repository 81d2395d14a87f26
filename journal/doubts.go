package journal

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// longAgo is the ConfirmedAt of a copy of an entry in doubt. It differs from the zero time, which
// pending writes have.
var longAgo = time.Unix(0, 0)

// doubts are the entries for which upstream may hold, or may yet carry out, a write that was sent
// and never journaled. While an entry is in doubt, its settled copy counts as very old, so that
// readers ask upstream.
type doubts struct {
	some atomic.Int32 // the number of entries: most of the time 0, and readers take no lock
	mu   sync.Mutex   // guards of
	of   map[ID]struct{}
}

func (d *doubts) add(id ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = make(map[ID]struct{})
	}
	d.of[id] = struct{}{}
	d.some.Store(int32(len(d.of)))
}

func (d *doubts) remove(id ID) {
	if d.some.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, id)
	d.some.Store(int32(len(d.of)))
}

func (d *doubts) has(id ID) bool {
	if d.some.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.of[id]
	return ok
}

// in returns the entries of a namespace.
func (d *doubts) in(namespace string) (ids []ID) {
	if d.some.Load() == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.of {
		if id.Namespace == namespace {
			ids = append(ids, id)
		}
	}
	return ids
}

// recall adds the entries in doubt of an earlier process that have no pending write. It looks into
// the store and not into the index: a subscriber that comes later would not hear of an entry that
// the index already knows.
func (d *doubts) recall(entries []Doubtful, s *store.Store) error {
	for _, entry := range entries {
		id := entry.ID
		isPending := false
		err := store.ScanPending(s.DB(), record.PendingOf(id), func(record.ID, record.Version) error {
			isPending = true
			return nil
		})
		if err != nil {
			return err
		}
		if !isPending {
			d.add(id)
		}
	}
	return nil
}
