package recovery

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// source is where the records come from.
type source interface {
	// each calls visit for every record but the state record, sealed as it was found, in
	// the order of keys. Key and value are valid only during the call.
	each(visit func(key, value []byte) error) error
}

// viewPrefixes are those of all records but the state record, in their order.
var viewPrefixes = []string{
	record.SentPrefix, record.DeadPrefix, record.HeaderPrefix, record.RowPrefix, record.PendingPrefix, record.SettledPrefix,
}

// view is what Pebble shows of a store that it can open.
type view struct{ db *pebble.DB }

// openView returns nil if Pebble cannot open the store.
func openView(opts store.Options) *view {
	db, err := store.OpenPebble(opts, true)
	if err != nil {
		return nil
	}
	return &view{db}
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
	return errors.Join(it.damage, it.close())
}

// viewIter goes through a view as far as Pebble can read it: where it cannot, the iterator
// goes on with the next kind of record.
type viewIter struct {
	*view  // nil is one without records
	it     *pebble.Iterator
	kinds  int // that were begun
	damage error
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
			i.damage = errors.Join(i.damage, err)
		}
		if i.kinds == len(viewPrefixes) {
			return false
		}
		prefix := []byte(viewPrefixes[i.kinds])
		i.kinds++
		it, err := i.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
		if err != nil {
			i.damage = errors.Join(i.damage, err)
			continue
		}
		i.it = it
	}
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
type merged struct {
	found *salvage
	view  *view
}

func (m *merged) each(visit func(key, value []byte) error) (err error) {
	it := viewIter{view: m.view}
	defer func() { err = errors.Join(err, it.close()) }()
	more := it.next()
	ranges := rangeSweep{rest: m.found.ranges}
	err = m.found.records.each(func(v *version) error {
		for more && bytes.Compare(it.key(), v.key) < 0 {
			if err := visit(it.key(), it.value()); err != nil {
				return err
			}
			more = it.next()
		}
		if ranges.remove(v) {
			return nil // the view is newer, if it has the key
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

// rangeSweep tells which versions were removed with a range. It is asked in the order of
// keys, and holds the ranges that the present key is in.
type rangeSweep struct {
	rest, open []removedRange
}

func (s *rangeSweep) remove(v *version) bool {
	for len(s.rest) > 0 && bytes.Compare(s.rest[0].from, v.key) <= 0 {
		s.open = append(s.open, s.rest[0])
		s.rest = s.rest[1:]
	}
	removed := false
	open := s.open[:0]
	for _, r := range s.open {
		if bytes.Compare(v.key, r.to) < 0 {
			open = append(open, r)
			removed = removed || v.order < r.order
		}
	}
	s.open = open
	return removed
}
