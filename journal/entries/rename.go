package entries

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Rename records that upstream calls a namespace otherwise from now on, as it is sealed now, or no longer: its copies, its
// rows and what is known to be absent are of another namespace. The versions stay; [History.Before] tells which of them are
// from before. Nothing of the namespace may be pending, and nobody else may use the journal yet. Rename is durable when it
// returns.
func (e *Entries) Rename(namespace string) error {
	return e.store.Use(func() error {
		return e.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			dropListing(tx, namespace)
			tx.DeletePrefix(record.Within(record.SettledPrefix, namespace))
			tx.DeletePrefix(record.Within(record.NewestPrefix, namespace))
			key := record.EntryKey(record.NewestPrefix, ID{Namespace: namespace})
			tx.Set(key, record.EncodeSettled(key, &Observation{UpdatedAt: store.UnixNow()}, 0, max(1, tx.Totals().Seq)))
			e.Trust.note(namespace, Suspect{})
			return nil
		}))
	})
}

// renamed says when upstream began to call a namespace by its present name: after the version with the number seq, at
// a time in Unix seconds. Both are 0 if it always has.
func renamed(r pebble.Reader, namespace string) (seq uint64, at float64, err error) {
	_, err = store.Get(r, record.EntryKey(record.NewestPrefix, ID{Namespace: namespace}), func(body []byte) error {
		o, _, last, err := record.DecodeSettled(body)
		seq, at = last, o.UpdatedAt
		return err
	})
	return seq, at, store.IgnoreDamage(err)
}

// Before returns the number of the last version from before a namespace was sealed, when anybody may have written it;
// 0 if there is none.
func (h *History) Before(namespace string) (seq uint64, err error) {
	if err := h.entries.store.Acquire(); err != nil {
		return 0, err
	}
	defer h.entries.store.Release()
	seq, _, err = renamed(h.entries.store.DB(), namespace)
	return seq, err
}
