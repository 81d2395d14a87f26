package journal

import (
	"sync"
	"time"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// longAgo is the ConfirmedAt of an entry in doubt. It differs from a pending write's zero time.
var longAgo = time.Unix(0, 0)

// doubts holds the entries for which upstream may hold, or may yet carry out, a write that was sent but
// never journaled. While an entry is in doubt, its settled copy counts as very old, so that readers ask
// upstream.
type doubts struct {
	mu sync.RWMutex // guards of
	of map[ID]struct{}
}

func (d *doubts) add(id ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of[id] = struct{}{}
}

func (d *doubts) remove(id ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, id)
}

func (d *doubts) has(id ID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, ok := d.of[id]
	return ok
}

func (d *doubts) in(namespace string) (ids []ID) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for id := range d.of {
		if id.Namespace == namespace {
			ids = append(ids, id)
		}
	}
	return ids
}

// recall adds an earlier process's entries in doubt that have no pending write. It reads the store, not
// the index: reading through the index would load entries before the subscriber is there, and the
// subscriber would miss them.
func (d *doubts) recall(entries []Doubtful, s *store.Store) error {
	for _, entry := range entries {
		isPending, err := store.HoldsAny(s.DB(), record.PendingOf(entry.ID))
		if err != nil {
			return err
		}
		if !isPending {
			d.add(entry.ID)
		}
	}
	return nil
}
