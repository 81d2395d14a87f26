package entries

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// listedAtMost bounds the keys that upstream lists.
const listedAtMost = 1000

// absence is an entry that upstream has confirmed but no longer lists.
type absence struct {
	row         Row
	copied      bool    // it has a settled copy
	confirmedAt float64 // Unix seconds: when the copy was confirmed
}

// absences holds the confirmed entries of a namespace that upstream's listing lacks.
type absences struct {
	entries map[string]absence
	of      int // number of entries that upstream has confirmed
}

// findAbsent decides how to treat the entries that upstream does not list. It accepts a complete
// listing: a read must not bring back an entry that a listing has shown to be gone (contract 7). But if
// the listing lacks too many entries, their rows and copies stay, and the namespace is suspect until
// upstream lists them all again.
func (l *listed) findAbsent(past []Row, before record.Header, now map[string]Row, rows []Row) error {
	complete, was := l.header.Complete, before.Suspect
	// guard 9.54
	if !complete && (was.Since == 0 || l.fill.decided) {
		return nil // an incomplete listing does not show what else upstream holds
	}
	if err := l.queue.FaultInSpace(l.fill.namespace); err != nil {
		return err
	}
	found, err := l.notListed(past, now)
	if l.unread, err = l.giveUp(err); err != nil {
		return err
	}
	stays := map[string]absence{}
	switch {
	case l.fill.decided: // guard 9.61
		l.fill.uncopied = found.uncopied()
	case l.fill.distrust:
		stays = found.entries
	case complete:
		stays = l.tooMany(found, was)
	// guard 9.55
	case found.lackSince(rows):
		stays = found.entries
	default: // upstream lists as many keys as it can, and has lost none that it would list
		return nil
	}
	for name, a := range found.entries {
		if _, kept := stays[name]; a.copied && !kept { // guard 7.11
			l.absent = append(l.absent, ID{Namespace: l.fill.namespace, Key: name})
		}
	}
	slices.SortFunc(l.absent, func(a, b ID) int { return cmp.Compare(a.Key, b.Key) })
	switch {
	case len(stays) > 0:
		l.suspect(stays, before, now)
		l.header.Suspect.Of = found.of
	case l.fill.distrust:
		l.header = before
	}
	return nil
}

// notListed returns the entries with a row or a settled copy that a listing lacks. On damage, it
// returns the entries found so far, and the error.
func (l *listed) notListed(past []Row, now map[string]Row) (found absences, err error) {
	found = absences{entries: make(map[string]absence), of: len(past)}
	for _, row := range past {
		if !has(now, row.Key) {
			found.entries[row.Key] = absence{row: row}
		}
	}
	prefix := record.Within(record.SettledPrefix, l.fill.namespace)
	err = store.Each(l.store.DB(), prefix, record.After(prefix), func(key, value []byte) error {
		name := string(key[len(prefix):])
		a, hasRow := found.entries[name]
		switch {
		case has(now, name):
			if !isAmong(past, name) {
				found.of++
			}
			return nil
		case !hasRow:
			found.of++
		}
		a.copied = true
		if body, err := record.Unseal(key, value); err == nil { // skip a damaged copy
			o, at, _, _ := record.DecodeSettled(body)
			a.confirmedAt = max(at, l.seen.get(ID{Namespace: l.fill.namespace, Key: name}).confirmedAt)
			if !hasRow {
				a.row = Row{Key: name, ListBytes: o.ListBytes, UpdatedAt: o.UpdatedAt, Origin: o.Origin}
			}
		}
		found.entries[name] = a
		return nil
	})
	return found, err
}

func isAmong(rows []Row, name string) bool {
	_, ok := slices.BinarySearchFunc(rows, name, func(r Row, name string) int { return cmp.Compare(r.Key, name) })
	return ok
}

// tooMany returns the absent entries that the journal keeps, because there are too many of them. One with a pending
// write does not count: upstream gets that. In a suspect namespace, entries that upstream has confirmed since the
// namespace became suspect are judged separately.
func (l *listed) tooMany(found absences, was Suspect) (stays map[string]absence) {
	stays, recent := make(map[string]absence), make(map[string]absence)
	for name, a := range found.entries {
		switch {
		case l.queue.IsPending(ID{Namespace: l.fill.namespace, Key: name}): // guard 9.47
		// guard 9.48
		case was.Since == 0 || a.copied && a.confirmedAt > was.Since:
			recent[name] = a
		default:
			stays[name] = a
		}
	}
	if l.Trust.suspicious(l.fill.namespace, len(recent), found.of-len(stays)) {
		maps.Copy(stays, recent)
	}
	return stays
}

// uncopied counts the entries of which there is no copy.
func (f absences) uncopied() (n int) {
	for _, a := range f.entries {
		if !a.copied {
			n++
		}
	}
	return n
}

// lackSince reports whether a listing of only the newest rows lacks an entry that is newer than its
// oldest row.
func (f absences) lackSince(rows []Row) bool {
	oldest := math.Inf(1)
	for _, r := range rows {
		oldest = min(oldest, r.UpdatedAt)
	}
	for _, a := range f.entries {
		if a.row.Origin.At > oldest {
			return true
		}
	}
	return false
}

// suspect keeps the rows of the entries that upstream lacks, and marks the namespace suspect. The
// listing becomes no fresher.
func (l *listed) suspect(stays map[string]absence, before record.Header, now map[string]Row) {
	listing := ID{Namespace: l.fill.namespace}
	h := &l.header
	h.Suspect = before.Suspect
	if h.Suspect.Missing = len(stays); h.Suspect.Since == 0 {
		h.Suspect.Since = store.UnixNow()
	}
	h.Complete = before.Complete // without a kept listing, upstream may have lost more entries
	// guard 9.52
	h.FetchedAt = max(before.FetchedAt, l.seen.get(listing).confirmedAt)
	known := before != (record.Header{})
	for name, a := range stays {
		if !known && (h.FetchedAt == 0 || a.confirmedAt < h.FetchedAt) {
			h.FetchedAt = a.confirmedAt
		}
		if a.row.Key == "" {
			continue
		}
		if len(now) >= listedAtMost { // guard 9.53
			h.Complete = false
			continue
		}
		now[name] = a.row
	}
}
