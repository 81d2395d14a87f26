package recovery

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// source yields the records to recover.
type source interface {
	// each calls visit for the records, sealed as they were found, in key order. It may leave out those of the class Made.
	// Key and value are valid only during the call.
	each(visit func(key, value []byte) error) error
}

// view reads a store that Pebble can open.
type view struct {
	db *pebble.DB
	// unread has the kinds of records that the last pass could not read completely.
	unread map[*record.Kind]bool
	damage error // the first one of that pass
}

// hasWrites reports whether the last pass has read all that is owed, and all versions.
func (v *view) hasWrites() bool {
	return !v.lacks(func(k *record.Kind) bool { return k.Class == record.Owed || k.Prefix == record.VersionPrefix })
}

// hasCopies reports whether the last pass has read all copies.
func (v *view) hasCopies() bool {
	return !v.lacks(func(k *record.Kind) bool { return k.Class == record.Copied })
}

func (v *view) lacks(is func(*record.Kind) bool) bool {
	return slices.ContainsFunc(record.Kinds, func(k *record.Kind) bool { return v.unread[k] && is(k) })
}

// openView returns nil if Pebble cannot open the store.
func openView(opts store.Options) *view {
	db, err := store.OpenPebble(opts)
	if err != nil {
		return nil
	}
	return &view{db: db}
}

func (v *view) close() error {
	if v == nil {
		return nil
	}
	return v.db.Close()
}

func (v *view) each(visit func(key, value []byte) error) (err error) {
	for key, value := range v.all {
		if err = visit(key, value); err != nil {
			break
		}
	}
	return err
}

// all yields the records. Where Pebble cannot continue, it skips to the next kind.
func (v *view) all(yield func(key, value []byte) bool) {
	if v == nil {
		return
	}
	v.unread, v.damage = make(map[*record.Kind]bool), nil
	for _, kind := range record.Kinds {
		if kind.Class == record.Made {
			continue
		}
		from, to := kind.Bounds()
		it, err := v.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
		if err == nil {
			for more := it.First(); more; more = it.Next() {
				if !yield(it.Key(), it.Value()) {
					_ = it.Close() // it is read-only
					return
				}
			}
			err = it.Close()
		}
		v.unread[kind], v.damage = err != nil, cmp.Or(v.damage, err)
	}
}

// merged yields the records found in the files, and those that only Pebble's view has. Copies among
// them may be old, or may have been removed with a range of keys; the caller drops them.
type merged struct {
	found *sorter
	view  *view // nil counts as empty
}

func (m *merged) each(visit func(key, value []byte) error) error {
	next, stop := iter.Pull2(m.view.all)
	defer stop()
	key, value, more := next()
	err := m.found.each(func(name, found []byte, deleted bool) error {
		for ; more && bytes.Compare(key, name) < 0; key, value, more = next() {
			if err := visit(key, value); err != nil {
				return err
			}
		}
		if more && bytes.Equal(key, name) {
			key, value, more = next()
		}
		if deleted {
			return nil
		}
		return visit(name, found)
	})
	for ; more && err == nil; key, value, more = next() {
		err = visit(key, value)
	}
	return err
}
