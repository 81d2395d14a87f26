package journal

import "time"

// Stats is a summary of a journal.
type Stats struct {
	Pending      int     // entries with a pending write
	PendingBytes int64   // as the budget counts them
	OldestSince  float64 // Unix seconds; 0 when nothing is pending
	DeadLetters  int
	DeadBytes    int64
	LastSeq      uint64 // the highest sequence number given out
	Rebuilding   bool   // Pending and Namespaces are still growing
	Namespaces   map[string]NamespaceStats
}

// NamespaceStats is a namespace's part of [Stats].
type NamespaceStats struct {
	Pending      int
	PendingBytes int64
	OldestSince  float64
}

// Stats summarises the journal.
func (j *Journal) Stats() Stats {
	j.commitMu.Lock()
	st := Stats{DeadLetters: int(j.totals.dead), DeadBytes: j.totals.deadBytes, LastSeq: j.totals.seq}
	j.commitMu.Unlock()
	j.mu.RLock()
	defer j.mu.RUnlock()
	st.Rebuilding = !j.index.complete()
	st.Namespaces = make(map[string]NamespaceStats, len(j.index.spaces))
	for name, s := range j.index.spaces {
		if s.oldest == nil {
			continue
		}
		since := s.oldest.visible.since
		st.Pending += s.count
		st.PendingBytes += s.bytes
		if st.OldestSince == 0 || since < st.OldestSince {
			st.OldestSince = since
		}
		st.Namespaces[name] = NamespaceStats{Pending: s.count, PendingBytes: s.bytes, OldestSince: since}
	}
	return st
}

// age is the time since a wall-clock instant, at least 0.
func age(since float64) time.Duration {
	return max(0, time.Duration((unixNow()-since)*float64(time.Second)))
}

// Age is how long the write's entry has been waiting, at least 0.
func (p Pending) Age() time.Duration { return age(p.Since) }

// OldestAge is how long the oldest pending write has waited, 0 if there is none.
func (s Stats) OldestAge() time.Duration {
	if s.OldestSince == 0 {
		return 0
	}
	return age(s.OldestSince)
}

// OldestAge is how long the namespace's oldest pending write has waited.
func (s NamespaceStats) OldestAge() time.Duration { return age(s.OldestSince) }
