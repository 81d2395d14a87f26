package memory

import (
	"errors"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// offline is what a namespace's setting offline means.
type offline struct {
	journal *journal.Journal
	// assumesAbsent says in which namespaces an unknown entry counts as absent while upstream
	// cannot be asked, and writesThrough which of them write through.
	assumesAbsent, writesThrough func(namespace string) bool
}

// mayAssumeAbsent reports whether a reader may be told that an entry is absent of which nothing is
// known: its namespace is set so. An entry that a listing has, or that is in doubt, is no such entry, and
// a caller who demands an answer from upstream gets none from here. A write through could not be
// fenced, so nothing is assumed before one.
func (o *offline) mayAssumeAbsent(key cache.Key, d Directives, f found) bool {
	unknown := f.item == nil || f.item.Body == nil
	return key.Key != "" && unknown && !f.mayExist && !d.narrow() && // guard 9.27
		o.assumesAbsent(key.Namespace) && !o.writesThrough(key.Namespace)
}

// fence has a write fenced, whatever the settings, if its entry may have been read as absent
// without anybody knowing: upstream may hold a value after all (contract 17). A newer write to
// the entry inherits that from a pending one.
func (o *offline) fence(w *journal.NewWrite) error {
	if !o.assumesAbsent(w.Namespace) {
		return nil
	}
	state, err := o.journal.Lookup(w.ID)
	if err != nil {
		return err
	}
	w.Fenced = w.Fenced || leavesNoTrace(state.Kind) // guard 17.14
	return nil
}

// isOutage reports whether an error says that upstream did not answer. One that answers and
// refuses is there.
func isOutage(err error) bool {
	var said Answered
	return isUnavailable(err) && !errors.As(err, &said)
}
