package journal

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Keys walks the keys of which something is known here, without a list of them all: there may
// be a million. Its methods may be called concurrently.
type Keys struct {
	store  *store.Store
	copies *copies
}

// KnownKey is a key of which something is known here: a pending write, a settled copy, or a row
// in the listing.
type KnownKey struct {
	Key string
	// Confirmed says that the listing has shown the settled copy as it is.
	Confirmed bool
}

// Listed is what is known of a namespace's listing, beside its rows.
type Listed struct {
	FetchedAt time.Time // when upstream was asked; zero if there is no listing
	Complete  bool
}

// After returns up to most keys of a namespace that follow a key, in their order, and the
// listing that confirms some of them. A walk begins after "", which no key is. It meets each key
// of which something is known throughout the walk. [Journal.Lookup] says what: nothing, or a
// delete, if it has changed meanwhile.
func (k *Keys) After(namespace, key string, most int) (keys []KnownKey, l Listed, err error) {
	if err := k.store.Acquire(); err != nil {
		return nil, l, err
	}
	defer k.store.Release()
	listing := ID{Namespace: namespace}
	// A confirmation from before the snapshot is one of rows that have not changed since, or
	// the header of the changed ones is newer.
	noted := k.copies.seen.get(listing)
	snapshot := k.copies.snapshot(listing)
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if l, err = listedIn(snapshot, namespace, noted.confirmedAt); err != nil {
		return nil, l, fmt.Errorf("keys of %s: %w", namespace, err)
	}
	w, err := newKeyWalk(snapshot, namespace, key)
	if err != nil {
		return nil, l, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for len(keys) < most {
		name, ok := w.next()
		if !ok {
			break
		}
		keys = append(keys, KnownKey{Key: name, Confirmed: w.confirmed()})
	}
	return keys, l, w.error()
}

func listedIn(r pebble.Reader, namespace string, confirmedAt float64) (Listed, error) {
	h, ok, err := readHeader(r, namespace)
	if store.IsDamage(err) {
		return Listed{}, nil // no listing any more: a reader gives it up
	}
	if err != nil || !ok {
		return Listed{}, err
	}
	return Listed{FetchedAt: fromUnix(max(h.FetchedAt, confirmedAt)), Complete: h.Complete}, nil
}

// keyWalk is a walk over one state of the store. The walk is at a key in three orders at
// once: those of the copies, of the rows, and of the pending writes.
type keyWalk struct {
	copies, rows nameIter
	pending      pendingIter
	at           string
}

func newKeyWalk(r pebble.Reader, namespace, after string) (*keyWalk, error) {
	w := &keyWalk{at: after}
	var errs [3]error
	w.copies, errs[0] = newNameIter(r, record.Within(record.SettledPrefix, namespace), after)
	w.rows, errs[1] = newNameIter(r, record.Within(record.RowPrefix, namespace), after)
	w.pending, errs[2] = newPendingIter(r, namespace)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *keyWalk) close() error {
	return errors.Join(w.copies.close(), w.rows.close(), w.pending.close())
}

func (w *keyWalk) error() error {
	return errors.Join(w.copies.it.Error(), w.rows.it.Error(), w.pending.error())
}

// next moves on to the next key; false if there is none.
func (w *keyWalk) next() (name string, ok bool) {
	w.copies.pass(w.at)
	w.rows.pass(w.at)
	for _, candidate := range []func() (string, bool){
		w.copies.name, w.rows.name, func() (string, bool) { return w.pending.after(w.at) },
	} {
		if found, there := candidate(); there && (!ok || found < name) {
			name, ok = found, true
		}
	}
	w.at = name
	return name, ok
}

// confirmed reports whether the row at the walk's key is that of the copy there. Upstream's own
// time of both shows it.
func (w *keyWalk) confirmed() bool {
	for _, it := range []*nameIter{&w.copies, &w.rows} {
		if name, ok := it.name(); !ok || name != w.at {
			return false
		}
	}
	row, err := w.rows.row()
	if err != nil || row.Origin.At == 0 {
		return false
	}
	kept, err := w.copies.copy()
	return err == nil && kept.Origin.At == row.Origin.At && kept.ListBytes == row.ListBytes
}

// nameIter is at one of the records of a kind that a namespace's keys have.
type nameIter struct {
	it     *pebble.Iterator
	prefix int
}

func newNameIter(r pebble.Reader, prefix []byte, after string) (nameIter, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	if err == nil {
		it.SeekGE(append(bytes.Clone(prefix), after...))
	}
	return nameIter{it, len(prefix)}, err
}

func (n *nameIter) close() error {
	if n.it == nil {
		return nil
	}
	return n.it.Close()
}

func (n *nameIter) name() (name string, ok bool) {
	if !n.it.Valid() {
		return "", false
	}
	return string(n.it.Key()[n.prefix:]), true
}

// pass goes on if the iterator is at a key already passed.
func (n *nameIter) pass(key string) {
	if n.it.Valid() && string(n.it.Key()[n.prefix:]) <= key {
		n.it.Next()
	}
}

func (n *nameIter) row() (row Row, err error) {
	name, _ := n.name()
	err = n.unseal(func(body []byte) error { row, err = record.DecodeRow(name, body); return err })
	return row, err
}

func (n *nameIter) copy() (o Observation, err error) {
	err = n.unseal(func(body []byte) error { o, _, err = record.DecodeSettledHead(body); return err })
	return o, err
}

func (n *nameIter) unseal(decode func(body []byte) error) error {
	body, err := record.Unseal(n.it.Key(), n.it.Value())
	if err != nil {
		return err
	}
	return decode(body)
}

// pendingIter finds the keys of pending writes. Their records are not in the order of the keys:
// a slash follows the key, so what goes on with a hyphen or a dot comes before the key itself.
type pendingIter struct {
	it     *pebble.Iterator
	prefix []byte
	// found is the key that after found last, and there is false if there was none.
	found        string
	there, began bool
	damage       error
}

func newPendingIter(r pebble.Reader, namespace string) (pendingIter, error) {
	prefix := record.Within(record.PendingPrefix, namespace)
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	return pendingIter{it: it, prefix: prefix}, err
}

func (p *pendingIter) close() error {
	if p.it == nil {
		return nil
	}
	return p.it.Close()
}

func (p *pendingIter) error() error { return errors.Join(p.damage, p.it.Error()) }

// after is the first key behind another one. Keys come in ascending order.
func (p *pendingIter) after(key string) (found string, there bool) {
	if !p.began || p.there && p.found <= key {
		p.found, p.there = p.search(key)
		p.began = true
	}
	return p.found, p.there
}

// search finds the first key behind another one. The records of the keys behind it are all
// behind the record that it would have if it went on with a hyphen, and of the keys before it
// only those are there that it begins with. Of two keys of which one begins with the other,
// the longer one's record may come first: so search looks for the beginnings of the key found.
func (p *pendingIter) search(key string) (found string, there bool) {
	from := bytes.Clone(p.prefix)
	if key != "" {
		from = append(append(from, key...), '-')
	}
	for valid := p.it.SeekGE(from); valid; valid = p.it.SeekGE(record.After(p.recordsOf(found))) {
		id, _, err := record.ParsePendingKey(p.it.Key())
		if err != nil {
			p.damage = err
			return "", false
		}
		if found = id.Key; found > key {
			return p.shortest(key, found), true
		}
	}
	return "", false
}

// shortest is the shortest key that another one begins with, behind key.
func (p *pendingIter) shortest(key, name string) string {
	for i := 1; i < len(name); i++ {
		if c := name[i]; c != '-' && c != '.' || name[:i] <= key {
			continue
		}
		records := p.recordsOf(name[:i])
		if p.it.SeekGE(records) && bytes.HasPrefix(p.it.Key(), records) {
			return name[:i]
		}
	}
	return name
}

// recordsOf is what the records of a key begin with.
func (p *pendingIter) recordsOf(key string) []byte {
	return append(append(bytes.Clone(p.prefix), key...), '/')
}
