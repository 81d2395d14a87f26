package recovery

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// source yields the records to recover.
type source interface {
	// each calls visit for every record but the state record, sealed as it was found, in
	// the order of keys. Key and value are valid only during the call.
	each(visit func(key, value []byte) error) error
}

// viewPrefixes are the prefixes of all records but the state record, in order.
var viewPrefixes = []string{
	record.SentPrefix, record.DeadPrefix, record.HeaderPrefix, record.RowPrefix, record.PendingPrefix, record.ReceiptPrefix,
	record.SettledPrefix,
}

// view reads a store that Pebble can open.
type view struct {
	db *pebble.DB
	// unread names the kinds of records that the last pass could not read completely.
	unread map[string]bool
}

// hasWrites reports whether the last pass has read everything but copies and receipts.
func (v *view) hasWrites() bool {
	return !v.unread[record.SentPrefix] && !v.unread[record.DeadPrefix] && !v.unread[record.PendingPrefix]
}

// hasCopies reports whether the last pass has read all copies.
func (v *view) hasCopies() bool {
	return !v.unread[record.HeaderPrefix] && !v.unread[record.RowPrefix] && !v.unread[record.SettledPrefix]
}

// openView returns nil if Pebble cannot open the store.
func openView(opts store.Options) *view {
	db, err := store.OpenPebble(opts, true)
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

func (v *view) each(visit func(key, value []byte) error) error {
	it := viewIter{view: v}
	for it.next() {
		if err := visit(it.key(), it.value()); err != nil {
			return errors.Join(err, it.close())
		}
	}
	v.unread = it.unread
	return nil
}

// viewIter goes through a view as far as Pebble can read it: where it cannot, the iterator
// goes on with the next kind of record.
type viewIter struct {
	*view  // nil is one without records
	it     *pebble.Iterator
	kinds  int             // that were begun
	unread map[string]bool // kinds that Pebble could not read completely
}

func (i *viewIter) next() bool {
	if i.view == nil {
		return false
	}
	for {
		if i.it != nil && i.advance() {
			return true
		}
		if err := i.close(); err != nil {
			i.lacks(viewPrefixes[i.kinds-1])
		}
		if i.kinds == len(viewPrefixes) {
			return false
		}
		prefix := []byte(viewPrefixes[i.kinds])
		i.kinds++
		it, err := i.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
		if err != nil {
			i.lacks(string(prefix))
			continue
		}
		i.it = it
	}
}

func (i *viewIter) lacks(kind string) {
	if i.unread == nil {
		i.unread = make(map[string]bool)
	}
	i.unread[kind] = true
}

func (i *viewIter) advance() bool {
	if !i.it.Valid() {
		return i.it.First()
	}
	return i.it.Next()
}

func (i *viewIter) key() []byte   { return i.it.Key() }
func (i *viewIter) value() []byte { return i.it.Value() }

func (i *viewIter) close() error {
	if i.it == nil {
		return nil
	}
	err := i.it.Close()
	i.it = nil
	return err
}

// merged shows the records found in the files, and those whose keys only Pebble's view has.
// Copies among them may have been removed with a range of keys, or be old: they are dropped.
type merged struct {
	found *salvage
	view  *view
}

func (m *merged) each(visit func(key, value []byte) error) (err error) {
	it := viewIter{view: m.view}
	defer func() { err = errors.Join(err, it.close()) }()
	more := it.next()
	err = m.found.records.each(func(v *version) error {
		for more && bytes.Compare(it.key(), v.key) < 0 {
			if err := visit(it.key(), it.value()); err != nil {
				return err
			}
			more = it.next()
		}
		if more && bytes.Equal(it.key(), v.key) {
			more = it.next()
		}
		if v.deleted {
			return nil
		}
		return visit(v.key, v.value)
	})
	for ; more && err == nil; more = it.next() {
		err = visit(it.key(), it.value())
	}
	return err
}
