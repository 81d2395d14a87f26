package memory

import (
	"errors"
	"sync"

	"github.com/botwired/botwired/journal"
)

// mostRepairs bounds how often a newer version is written again because of one older version.
const mostRepairs = 3

// repairsKept bounds how many repairs are remembered.
const repairsKept = 10_000

// repairs remembers which older versions upstream has shown in the place of newer ones. Where versions name
// their times, it is certain that such a version was carried out late, or is shown again. The newer one is
// written again once for each time that the older one has arrived upstream, but not for ever: upstream may
// go on showing it.
type repairs struct {
	mu   sync.Mutex
	last map[journal.ID]repaired
}

// repaired is the last repair of an entry.
type repaired struct {
	madeAt, updatedAt float64 // of the older version
	times             int     // how often it was repaired
}

// repair writes the state known here again if upstream has shown an older version. The write gives way to
// any later one. If something newer is pending, or there is no room, a later read tries again.
func (r *repairs) repair(m *Memory, id journal.ID, seen *journal.Observation, here *journal.State) error {
	if seen == nil || seen.MadeAt == 0 || seen.MadeAt >= here.MadeAt || !r.due(id, seen) {
		return nil
	}
	_, err := m.writeAgain(id) // guard 7.44
	switch {
	case err == nil: // guard 7.63
		r.made(id, seen)
	case errors.Is(err, journal.ErrChanged), errors.Is(err, journal.ErrFull):
		return nil
	}
	return err
}

func (r *repairs) due(id journal.ID, seen *journal.Observation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[id]
	return last.madeAt != seen.MadeAt || last.updatedAt != seen.UpdatedAt && last.times < mostRepairs // guard 7.43
}

func (r *repairs) made(id journal.ID, seen *journal.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[id]
	if last.madeAt != seen.MadeAt {
		last = repaired{madeAt: seen.MadeAt}
	}
	last.updatedAt = seen.UpdatedAt
	last.times++
	if len(r.last) >= repairsKept {
		clear(r.last)
	}
	r.last[id] = last
}
