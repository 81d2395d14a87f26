package walk

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// Namespaces walks, in order, the namespaces that have settled copies, rows or pending writes.
type Namespaces struct{ kinds [3]nameIter }

// NewNamespaces returns a walk. The caller closes it.
func NewNamespaces(r pebble.Reader) (*Namespaces, error) {
	w := new(Namespaces)
	for i, prefix := range []string{record.SettledPrefix, record.RowPrefix, record.PendingPrefix} {
		var err error
		if w.kinds[i], err = newNameIter(r, []byte(prefix), firstName(prefix)); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

// Close ends the walk.
func (w *Namespaces) Close() error {
	return errors.Join(w.kinds[0].close(), w.kinds[1].close(), w.kinds[2].close())
}

// Err returns the error that has ended the walk early, if any.
func (w *Namespaces) Err() error {
	return errors.Join(w.kinds[0].error(), w.kinds[1].error(), w.kinds[2].error())
}

// After returns the first namespace that follows another one; ok is false after the last. Callers ask
// in ascending order.
func (w *Namespaces) After(after string) (next string, ok bool) {
	for i := range w.kinds {
		if name, there := w.kinds[i].after(after); there && (!ok || name < next) {
			next, ok = name, true
		}
	}
	return next, ok
}

// firstName returns a function that finds the namespace in the keys of one kind of record.
func firstName(prefix string) func(key []byte) (string, error) {
	return func(key []byte) (string, error) {
		name, _, ok := bytes.Cut(key[len(prefix):], []byte{'/'})
		if !ok {
			return "", fmt.Errorf("%w: key %q does not parse", record.ErrCorrupt, key)
		}
		return string(name), nil
	}
}
