package recovery

import (
	"bytes"
	"cmp"
	"errors"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// source yields the records to recover.
type source interface {
	// each calls visit for the records, sealed as they were found, in key order. It may leave out those of the class Made.
	// Key and value are valid only during the call.
	each(visit func(key, value []byte) error) error
	// lacks returns the kinds of which each leaves out records because they cannot be read. The caller may add to it.
	lacks() map[*record.Kind]bool
}

// view reads a store that Pebble can open. Pebble shows the newest version of each record, or an error, so damage
// brings no older one back.
type view struct {
	db *pebble.DB
	// gaps has the kinds of records that cannot be read from end to end.
	gaps map[*record.Kind]gap
}

// gap is the part of a kind that cannot be read: between the last key before all damage, and the first one behind it. nil
// means that there is none.
type gap struct{ before, behind []byte }

func (g gap) has(key []byte) bool {
	return (g.before == nil || bytes.Compare(g.before, key) < 0) && (g.behind == nil || bytes.Compare(key, g.behind) < 0)
}

// openView returns nil if Pebble cannot open the store.
func openView(opts store.Options) *view {
	db, err := store.OpenPebble(opts)
	if err != nil {
		return nil
	}
	v := &view{db: db, gaps: make(map[*record.Kind]gap)}
	for _, kind := range record.Kinds {
		if kind.Class == record.Made {
			continue
		}
		if g, found := v.gapIn(kind); found {
			v.gaps[kind] = g
		}
	}
	return v
}

// gapIn reads the records of a kind from both ends up to the damage.
func (v *view) gapIn(kind *record.Kind) (g gap, found bool) {
	if kind.Keyed == record.Single {
		err := v.get([]byte(kind.Prefix), func(_, _ []byte) error { return nil })
		return g, err != nil
	}
	from, to := kind.Bounds()
	err := v.walk(from, to, func(key, _ []byte) error { g.before = append(g.before[:0], key...); return nil })
	if err == nil {
		return g, false
	}
	it, err := v.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return g, true
	}
	for more := it.Last(); more && bytes.Compare(it.Key(), g.before) > 0; more = it.Prev() {
		if _, err := it.ValueAndErr(); err != nil {
			break
		}
		g.behind = append(g.behind[:0], it.Key()...)
	}
	_ = it.Close() // it has met the damage
	return g, true
}

// get visits one record, if there is one. A newer record than the damaged ones can be read so.
func (v *view) get(key []byte, visit func(key, value []byte) error) error {
	value, closer, err := v.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(visit(key, value), closer.Close())
}

func (v *view) walk(from, to []byte, visit func(key, value []byte) error) error {
	it, err := v.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	for more := it.First(); more && err == nil; {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = visit(it.Key(), value)
		}
		more = err == nil && it.Next()
	}
	if errors.Is(err, errEnough) {
		return it.Close()
	}
	return cmp.Or(err, it.Close())
}

// errEnough ends a walk before its end.
var errEnough = errors.New("enough")

func (v *view) lacks() map[*record.Kind]bool {
	lacks := make(map[*record.Kind]bool)
	for kind := range v.gaps {
		lacks[kind] = true
	}
	return lacks
}

// lacksVersion reports whether the version with this key cannot be read by reading all versions.
func (v *view) lacksVersion(key []byte) bool {
	g, found := v.gaps[versionKind]
	return found && g.has(key)
}

var (
	pendingKind   = record.KindOf([]byte(record.PendingPrefix))
	deadKind      = record.KindOf([]byte(record.DeadPrefix))
	versionKind   = record.KindOf([]byte(record.VersionPrefix))
	lossKind      = record.KindOf([]byte(record.LossPrefix))
	retentionKind = record.KindOf(record.RetentionKey)
)

func (v *view) close() error {
	if v == nil {
		return nil
	}
	return v.db.Close()
}

// each visits what is outside the gaps, and the versions of pending writes inside.
func (v *view) each(visit func(key, value []byte) error) error {
	for _, kind := range record.Kinds {
		if kind.Class == record.Made {
			continue
		}
		if err := v.eachOf(kind, visit); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) eachOf(kind *record.Kind, visit func(key, value []byte) error) error {
	from, to := kind.Bounds()
	g, found := v.gaps[kind]
	switch {
	case !found && kind.Keyed == record.Single:
		return v.get(from, visit)
	case !found:
		return v.walk(from, to, visit)
	}
	if g.before != nil {
		err := v.walk(from, to, func(key, value []byte) error {
			err := visit(key, value)
			if err == nil && bytes.Equal(key, g.before) {
				err = errEnough // a step further is the damage
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if kind == versionKind { // guard 4.30
		if err := v.eachPendingIn(g, visit); err != nil {
			return err
		}
	}
	if g.behind == nil {
		return nil
	}
	return v.walk(g.behind, to, visit)
}

// eachPendingIn visits the versions of pending writes in the gap that can be read one by one: the newest records may lie
// above the damage.
func (v *view) eachPendingIn(g gap, visit func(key, value []byte) error) error {
	return v.eachOf(pendingKind, func(key, _ []byte) error {
		id, seq, err := record.ParseVersionKey(key)
		version := record.VersionKey(id, seq)
		if err != nil || !g.has(version) {
			return nil //nolint:nilerr // a key that does not parse is told of where it is read
		}
		if err := v.get(version, visit); !store.IsDamage(err) {
			return err
		}
		return nil // the write counts as damaged
	})
}

// all yields what [view.each] visits, as far as it comes.
func (v *view) all(yield func(key, value []byte) bool) {
	if v == nil {
		return
	}
	_ = v.each(func(key, value []byte) error {
		if !yield(key, value) {
			return errStopped
		}
		return nil
	})
}

var errStopped = errors.New("stopped")

// merged yields the records found in the files, and those that only Pebble's view has. Copies among
// them may be old, or may have been removed with a range of keys; the caller drops them.
type merged struct {
	found *sorter
	view  *view // nil counts as empty
}

// lacks says that any record may be missing, also from what can be read.
func (m *merged) lacks() map[*record.Kind]bool {
	lacks := make(map[*record.Kind]bool)
	for _, kind := range record.Kinds {
		lacks[kind] = true
	}
	return lacks
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
