package journal

import (
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// removal removes some settled copies, or one listing, and has the sizes know of it: what nothing
// is kept of goes on counting, but a later write to it does not count beside it.
type removal struct {
	*evictor
	of     []copyOnDisk
	leaves []leaving // of the copies, in their order, or of the rows; nil if nobody counts
	unlock func()    // releases the copies lock, if it is a listing
	byHand bool      // a person wants the copies gone, also those of suspect namespaces

	removed int
	bytes   int64
	gone    []ID // entries that count otherwise than before
}

// leaving is how an entry's count changes when its copy, or its row, goes.
type leaving struct {
	id        ID
	from, to  base
	settlings uint32 // of the entry before the look; see [Sizes.settlingsOf]
}

// look finds, outside of the store's order, what the entries count. The caller holds the copies
// lock if it is a listing.
func (r *removal) look() error {
	if r.copies.sizes == nil {
		return nil
	}
	if listing := r.of[0].id; listing.Key == "" {
		prefix := record.Within(record.RowPrefix, listing.Namespace)
		return store.Each(r.copies.store.DB(), prefix, record.After(prefix), func(key, _ []byte) error {
			return r.lookAt(ID{Namespace: listing.Namespace, Key: string(key[len(prefix):])}, true)
		})
	}
	for _, c := range r.of {
		if err := r.lookAt(c.id, false); err != nil {
			return err
		}
	}
	return nil
}

// lookAt looks at the row and the copy of an entry, of which the row goes or else the copy. A record
// that is damaged has the next recount find what is left.
func (r *removal) lookAt(id ID, rowGoes bool) error {
	l := leaving{id: id, settlings: r.copies.sizes.settlingsOf(id).Load()}
	row, err := r.count(record.RowKey(id.Namespace, id.Key), func(body []byte) (int, error) {
		row, err := record.DecodeRow(id.Key, body)
		return row.ListBytes, err
	})
	if err != nil {
		return err
	}
	copied, err := r.count(record.EntryKey(record.SettledPrefix, id), func(body []byte) (int, error) {
		o, _, err := record.DecodeSettledHead(body)
		return o.ListBytes, err
	})
	switch {
	case !row.known:
		l.from, l.to = copied, base{bytes: copied.bytes}
	case !rowGoes:
		l.from, l.to = row, row
	case copied.known:
		l.from, l.to = row, copied
	default:
		l.from, l.to = row, base{bytes: row.bytes}
	}
	r.leaves = append(r.leaves, l)
	return err
}

func (r *removal) count(key []byte, listBytes func(body []byte) (int, error)) (b base, err error) {
	b.known, err = store.Get(r.copies.store.DB(), key, func(body []byte) error {
		n, err := listBytes(body)
		b.bytes = int64(n)
		return err
	})
	if store.IsDamage(err) {
		r.copies.sizes.miscounted()
		return base{}, nil
	}
	return b, err
}

// Fill leaves what is kept of suspect namespaces, the copies of entries with a pending write, which takes its created_at from the copy,
// and those that have just changed.
func (r *removal) Fill(tx *store.Tx) error {
	changes := make(map[string][]resizing)
	r.pending.readers.RLock()
	for i, c := range r.of {
		switch {
		case !r.byHand && r.copies.belief.isSuspect(c.id.Namespace): // nobody else may have it
			continue
		case c.id.Key == "":
			dropListing(tx, c.id.Namespace)
			for i := range r.leaves {
				r.leave(changes, &r.leaves[i])
			}
		case r.pending.waits(c.id), r.leaves != nil && r.hasChanged(&r.leaves[i]):
			continue
		default:
			tx.Delete(record.EntryKey(record.SettledPrefix, c.id))
			if r.leaves != nil {
				r.leave(changes, &r.leaves[i])
			}
		}
		r.removed, r.bytes = r.removed+1, r.bytes+c.size
	}
	r.pending.readers.RUnlock()
	for namespace, resized := range changes {
		r.copies.resized(namespace, false, resized...)
	}
	return nil
}

func (r *removal) hasChanged(l *leaving) bool {
	return r.copies.sizes.settlingsOf(l.id).Load() != l.settlings
}

func (r *removal) leave(changes map[string][]resizing, l *leaving) {
	if l.from != l.to {
		changes[l.id.Namespace] = append(changes[l.id.Namespace], resizing{l.id.Key, l.from, l.to})
		r.gone = append(r.gone, l.id)
	}
}

// Applied releases the copies lock: its next holder, which may bring the listing forward, finds it
// gone. Writes that have looked at the entries before look again.
func (r *removal) Applied() {
	for _, id := range r.gone {
		r.copies.sizes.baseChanged(id)
	}
	r.unlock()
}

// Durable has nothing left to show.
func (*removal) Durable() {}
