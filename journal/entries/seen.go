package entries

import "sync"

// seenAtMost bounds how many copies are remembered as confirmed or used. Forgetting one costs one extra
// request upstream, or makes the copy look unused.
const seenAtMost = 1 << 15

// seen remembers, in memory only, when upstream last confirmed copies and listings (an ID with an empty
// key) unchanged, and when they were last read. Neither is worth a write to disk. After a restart,
// copies are as old as the disk says. Its methods may be called concurrently.
type seen struct {
	mu sync.Mutex
	// New notes go to young. A full young replaces old and drops its notes, so that the latest notes
	// are kept.
	young, old map[ID]sighting
}

// sighting holds two times of a copy, in Unix seconds.
type sighting struct{ confirmedAt, usedAt float64 }

// last returns when the copy was last confirmed or read.
func (s sighting) last() float64 { return max(s.confirmedAt, s.usedAt) }

func (s *seen) get(id ID) sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(id)
}

// use notes that a copy was read, and returns its sighting.
func (s *seen) use(id ID, now float64) sighting {
	return s.note(id, func(n *sighting) { n.usedAt = now })
}

// confirm notes when upstream confirmed a copy unchanged.
func (s *seen) confirm(id ID, at float64) {
	s.note(id, func(n *sighting) { n.confirmedAt = at })
}

func (s *seen) note(id ID, change func(*sighting)) sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.find(id)
	change(&n)
	if s.young == nil || len(s.young) >= seenAtMost/2 {
		s.young, s.old = make(map[ID]sighting), s.young
	}
	s.young[id] = n
	return n
}

func (s *seen) find(id ID) sighting {
	if n, ok := s.young[id]; ok {
		return n
	}
	return s.old[id]
}
