package journal

// mayBeOurs reports whether what upstream shows of the entry may be a write of this journal that
// has not settled.
func mayBeOurs(c *copies, id ID) bool {
	if c.doubts.has(id) {
		return true
	}
	c.readers.RLock()
	defer c.readers.RUnlock()
	return c.pending.waits(id) // guard 9.28
}

// isForeign reports whether upstream's answer (nil for absent) shows a new write of another host.
// The caller holds the copies lock.
func (f *filling) isForeign(past settledCopy, o *Observation) bool {
	var changed bool
	switch {
	case o == nil:
		changed = past.kept
	case past.intact && past.Origin.Seq != 0:
		changed = f.state.WrittenAs == 0
	case past.intact:
		changed = past.Value != o.Value || o.UpdatedAt > shownAt(past.Origin, past.UpdatedAt)
	default:
		changed = f.row.wasAbsent
	}
	return changed && !f.row.wasShown && !mayBeOurs(f.copies, f.id)
}

// shownAt returns the time that upstream showed of another host's state. A copy from an older
// botwired has only its own time.
func shownAt(o Origin, updatedAt float64) float64 {
	if o.At != 0 {
		return o.At
	}
	return updatedAt
}

// findForeign returns the entries with another host's write that a new listing shows and the past
// listing did not. The caller holds the copies lock.
func (l *listed) findForeign(past Listing, complete bool, now map[string]Row) (found []ID) {
	add := func(key string) {
		if id := (ID{Namespace: l.fill.namespace, Key: key}); !mayBeOurs(l.copies, id) {
			found = append(found, id)
		}
	}
	had := make(map[string]bool, len(past.Rows))
	for _, old := range past.Rows {
		had[old.Key] = true
		row, ok := now[old.Key]
		others := ok && row.Origin.Seq == 0
		later := shownAt(row.Origin, row.UpdatedAt) > shownAt(old.Origin, old.UpdatedAt)
		if !ok && complete || others && (old.Origin.Seq != 0 || later) {
			add(old.Key)
		}
	}
	if !past.Complete {
		return found
	}
	for key, row := range now {
		if !had[key] && row.Origin.Seq == 0 {
			add(key)
		}
	}
	return found
}
