package memory

import (
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// mayAssumeAbsent reports whether a reader may be told that an entry is absent of which nothing is
// known: its namespace is set so. An entry that a listing has, or that is in doubt, is no such entry, and
// a caller who demands an answer from upstream gets none from here. A write through could not be
// fenced, so nothing is assumed before one.
func (m *Memory) mayAssumeAbsent(key cache.Key, d Directives, f found) bool {
	unknown := f.item == nil || f.item.Body == nil
	return key.Key != "" && unknown && !f.mayExist && !d.narrow() && // guard 9.27
		m.assumesAbsent(key.Namespace) && !m.writesThrough(key.Namespace)
}

// fenceAssumed has a write fenced, whatever the settings, if its entry may have been read as absent
// without anybody knowing: upstream may hold a value after all (contract 17). A newer write to
// the entry inherits that from a pending one.
func (m *Memory) fenceAssumed(w *journal.NewWrite) error {
	if !m.assumesAbsent(w.Namespace) {
		return nil
	}
	state, err := m.journal.Lookup(w.ID)
	if err != nil {
		return err
	}
	w.Fenced = w.Fenced || leavesNoTrace(state.Kind) // guard 17.14
	return nil
}

// isOutage reports whether an error says that upstream did not answer. One that answers and
// refuses is there.
func isOutage(err error) bool {
	_, answered := answeredStatus(err)
	return isUnavailable(err) && !answered
}
