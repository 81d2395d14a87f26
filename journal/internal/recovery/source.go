package recovery

import (
	"bytes"
	"cmp"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// source yields the records to recover.
type source interface {
	// each calls visit for every record except the state record, sealed as it was found, in key order.
	// Key and value are valid only during the call.
	each(visit func(key, value []byte) error) error
}

// viewPrefixes are the prefixes of all records except the state record, in order.
var viewPrefixes = []string{ // guard 4.34
	record.LeftPrefix, record.DeadPrefix, record.HeaderPrefix, record.RowPrefix, string(record.RetentionKey), record.PendingPrefix,
	record.ReceiptPrefix, record.SettledPrefix, record.NewestPrefix, string(record.SeenKey), record.VersionPrefix,
	record.LossPrefix,
}

// view reads a store that Pebble can open.
type view struct {
	db *pebble.DB
	// unread names the kinds of records that the last pass could not read completely.
	unread map[string]bool
	damage error // the first one of that pass
}

// hasWrites reports whether the last pass has read everything except copies and receipts.
func (v *view) hasWrites() bool {
	return !v.unread[record.LeftPrefix] && !v.unread[record.DeadPrefix] && !v.unread[record.PendingPrefix] && !v.unread[record.VersionPrefix]
}

// hasCopies reports whether the last pass has read all copies.
func (v *view) hasCopies() bool {
	return !v.unread[record.HeaderPrefix] && !v.unread[record.RowPrefix] && !v.unread[record.SettledPrefix]
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
	v.unread, v.damage = make(map[string]bool), nil
	for _, kind := range viewPrefixes {
		prefix := []byte(kind)
		it, err := v.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
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
