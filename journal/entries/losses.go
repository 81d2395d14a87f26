package entries

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// lossShare is the divisor of Options.MaxBytes that bounds the versions that are lost or gone. They come on top of
// MaxBytes: they need no decision, and a host whose writes keep losing must still take writes.
const lossShare = 8

// losses keeps the versions that have ended though nothing here has replaced them: those that have lost a conflict between
// hosts, and those that upstream has ceased to hold. They have room of their own, which neither the budget of the history nor
// a full disk takes: an acknowledged write that has lost must not be the first to go. Beyond it, the oldest losses are
// removed. The version of a removed loss then counts as history like any other; a version that was never in force here is
// removed with its loss.
//
// The store has a record of each, and losses knows their order. Every change goes through add and remove, in the store's order.
type losses struct {
	store  *store.Store
	budget int64 // bytes; 0 means no bound

	mu    sync.Mutex    // guards the fields below
	all   []lostVersion // the oldest first
	bytes int64
	lost  int // of all, those that are not gone
}

// lostVersion is a version that is lost or gone.
type lostVersion struct {
	ID
	seq uint64 // of the version
	record.Loss
}

func newLosses(s *store.Store, maxBytes int64) *losses {
	return &losses{store: s, budget: (maxBytes + lossShare - 1) / lossShare}
}

// load reads the losses of a store that nothing else uses meanwhile. It leaves out damaged ones, and those whose version was
// lost to damage.
func (l *losses) load() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all, l.bytes, l.lost = nil, 0, 0
	prefix := []byte(record.LossPrefix)
	err := store.Each(l.store.DB(), prefix, record.After(prefix), func(key, value []byte) error {
		id, seq, err := record.ParseLossKey(key)
		if err != nil {
			return store.IgnoreDamage(err)
		}
		body, err := record.Unseal(key, value)
		if err != nil {
			return store.IgnoreDamage(err)
		}
		one, err := record.DecodeLoss(body)
		if err != nil {
			return store.IgnoreDamage(err)
		}
		kept, err := store.HoldsKey(l.store.DB(), record.VersionKey(id, seq))
		if kept {
			l.insert(lostVersion{id, seq, one})
		}
		return store.IgnoreDamage(err)
	})
	slices.SortFunc(l.all, func(a, b lostVersion) int { return cmp.Compare(a.Order, b.Order) })
	return err
}

// insert adds the newest loss. The caller holds mu.
func (l *losses) insert(one lostVersion) {
	l.all = append(l.all, one)
	l.bytes += one.Size
	if !one.Gone {
		l.lost++
	}
}

// add records that a version is lost or gone. The version is in the store, or in the same change. at is the time in Unix
// seconds.
func (l *losses) add(tx *store.Tx, id ID, seq uint64, value string, is record.Loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is.Size, is.Order = record.LossSize(id, value), tx.Totals().Seq
	if n := len(l.all); n > 0 {
		is.Order = max(is.Order, l.all[n-1].Order+1)
	}
	key := record.LossKey(id, seq)
	tx.Set(key, record.EncodeLoss(key, &is))
	l.insert(lostVersion{id, seq, is})
}

// looksForLoss bounds how many of an entry's losses overwritten looks at.
const looksForLoss = 16

// overwritten keeps a state of another host as a version that is lost, unless it is among the last losses of the entry.
func (l *losses) overwritten(id ID, v *record.Version) error {
	kept, err := l.keeps(id, v)
	if err != nil {
		return err
	}
	if kept { // guard 17.4
		return l.store.AwaitDurable()
	}
	return l.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		seq := tx.TakeSeq()
		tx.SetVersion(id, seq, v)
		l.add(tx, id, seq, v.Value, record.Loss{At: store.UnixNow(), Apart: true})
		return nil
	}))
}

func (l *losses) keeps(id ID, v *record.Version) (kept bool, err error) {
	prefix := record.LossesOf(id)
	it, err := l.store.DB().NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	looks := 0
	for ok := it.Last(); ok && looks < looksForLoss && !kept; ok = it.Prev() {
		looks++
		_, seq, err := record.ParseLossKey(it.Key())
		if err != nil {
			continue
		}
		other, ok, err := store.ReadVersion(l.store.DB(), id, seq)
		if err != nil && !store.IsDamage(err) {
			return false, err
		}
		if err == nil && ok && other == *v {
			is, known, err := lossOf(l.store.DB(), id, seq)
			if err != nil {
				return false, err
			}
			kept = known && !is.Gone
		}
	}
	return kept, it.Error()
}

// remove removes a loss. The version stays, unless it was never in force here.
func (l *losses) remove(tx *store.Tx, one *lostVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, found := slices.BinarySearchFunc(l.all, one.Order, func(a lostVersion, order uint64) int { return cmp.Compare(a.Order, order) })
	if !found || l.all[at].seq != one.seq || l.all[at].ID != one.ID {
		return // somebody else has just removed it
	}
	if tx.Delete(record.LossKey(one.ID, one.seq)); one.Apart {
		tx.Delete(record.VersionKey(one.ID, one.seq))
	}
	l.bytes -= one.Size
	if !one.Gone {
		l.lost--
	}
	if at == 0 { // nothing is moved
		l.all = l.all[1:]
	} else {
		l.all = slices.Delete(l.all, at, at+1)
	}
}

// oldest returns the oldest loss if all of them exceed the budget. The last one always stays.
func (l *losses) oldest() (one lostVersion, exceeds bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.budget == 0 || l.bytes <= l.budget || len(l.all) < 2 { // guard 13.99
		return lostVersion{}, false
	}
	return l.all[0], true
}

// bound removes the oldest losses until the others fit into the budget, some at a time: when a list drops many copies, the
// losses of as many go. unnamed is called with the bytes of the versions that are like any other then.
func (l *losses) bound(unnamed func(bytes int64)) error {
	for {
		if _, exceeds := l.oldest(); !exceeds {
			return nil
		}
		bytes := int64(0)
		err := l.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			for range droppedAtOnce {
				one, exceeds := l.oldest()
				if !exceeds {
					break
				}
				if l.remove(tx, &one); !one.Apart {
					bytes += one.Size
				}
			}
			return nil
		}))
		if err != nil {
			return err
		}
		unnamed(bytes)
	}
}

// Conflicts returns how many versions have lost a conflict between hosts.
func (e *Entries) Conflicts() int { return e.losses.count() }

// count returns how many versions are lost, without those that are gone.
func (l *losses) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// HasLost reports whether write seq to an entry, or a newer one, has lost a conflict between hosts.
func (e *Entries) HasLost(id ID, seq uint64) (bool, error) { return e.losses.has(id, seq) }

// CheckLosses compares the losses that are known in memory with the store.
func (e *Entries) CheckLosses(db pebble.Reader) error {
	l, want := e.losses, newLosses(e.store, 0)
	if err := want.load(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(want.all, l.all) || want.bytes != l.bytes || want.lost != l.lost {
		return fmt.Errorf("the losses %v (%d bytes, %d lost) are known, and the store has %v (%d bytes, %d lost)",
			l.all, l.bytes, l.lost, want.all, want.bytes, want.lost)
	}
	for i := range l.all {
		if _, ok, err := store.ReadVersion(db, l.all[i].ID, l.all[i].seq); err != nil || !ok {
			return fmt.Errorf("version %d of %s is lost: found %v, %w", l.all[i].seq, l.all[i].ID, ok, err)
		}
	}
	return nil
}

// before returns up to limit versions that are lost, and not gone, of a namespace, or of all namespaces if it is "". The
// newest comes first. It begins below an order, or with the newest one if order is 0.
func (l *losses) before(namespace string, order uint64, limit int) (found []lostVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range slices.Backward(l.all) {
		if len(found) == limit {
			break
		}
		if (order == 0 || one.Order < order) && (namespace == "" || one.Namespace == namespace) && !one.Gone {
			found = append(found, one)
		}
	}
	return found
}

// under returns the losses of the entries that covers accepts.
func (l *losses) under(covers func(ID) bool) (found []lostVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.all {
		if covers(l.all[i].ID) {
			found = append(found, l.all[i])
		}
	}
	return found
}

// lossOf returns the loss of a version; ok is false if it is neither lost nor gone. A damaged record counts as missing.
func lossOf(r pebble.Reader, id ID, seq uint64) (l record.Loss, ok bool, err error) {
	ok, err = store.Get(r, record.LossKey(id, seq), func(body []byte) (err error) {
		l, err = record.DecodeLoss(body)
		return err
	})
	return l, ok, store.IgnoreDamage(err)
}

// hasLoss reports whether a version, given its key, is lost or gone.
func hasLoss(r pebble.Reader, key []byte) (bool, error) {
	lost, err := store.HoldsKey(r, record.LossOfVersion(key))
	return lost, store.IgnoreDamage(err)
}

// Lost returns up to limit versions that have lost a conflict between hosts, without values: those of a namespace, or all if it
// is "". The one that has lost last comes first. A walk begins with before 0, and goes on with the Past.Order of the last one.
// All of them are durable.
func (h *History) Lost(namespace string, before uint64, limit int) (versions []Past, err error) {
	if err := h.entries.store.Acquire(); err != nil {
		return nil, err
	}
	defer h.entries.store.Release()
	for len(versions) < limit {
		some := h.entries.losses.before(namespace, before, limit-len(versions))
		if len(some) == 0 {
			break
		}
		for _, one := range some {
			before = one.Order
			v, ok, err := store.ReadVersion(h.entries.store.DB(), one.ID, one.seq)
			if store.IsDamage(err) || err == nil && !ok {
				continue // the history of the entry lacks it, too
			}
			if err != nil {
				return nil, fmt.Errorf("version %d of %s: %w", one.seq, one.ID, err)
			}
			p := pastOf(one.ID, one.seq, &v)
			p.Value = ""
			p.end(&one.Loss)
			versions = append(versions, p)
		}
	}
	return versions, h.entries.store.AwaitDurable()
}

// has reports whether write seq to an entry, or a newer one, has lost a conflict between hosts.
func (l *losses) has(id ID, seq uint64) (lost bool, err error) {
	err = store.Each(l.store.DB(), record.LossKey(id, seq), record.After(record.LossesOf(id)), func(key, value []byte) error {
		body, err := record.Unseal(key, value)
		if err != nil {
			return store.IgnoreDamage(err)
		}
		one, err := record.DecodeLoss(body)
		if lost = err == nil && !one.Gone && !one.Apart; lost { // guard 17.9
			return store.ErrEnough
		}
		return store.IgnoreDamage(err)
	})
	if errors.Is(err, store.ErrEnough) {
		err = nil
	}
	return lost, store.IgnoreDamage(err)
}
