package journal

import (
	"errors"
	"hash/maphash"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// base is what an entry counts without its pending write.
type base struct {
	bytes int64
	known bool // there is a row or a copy of it
}

// baseOf reads what an entry counts without its pending write.
func (c *copies) baseOf(r pebble.Reader, id ID) (b base, err error) {
	b.known, err = store.Get(r, record.RowKey(id.Namespace, id.Key), func(body []byte) error {
		row, err := record.DecodeRow(id.Key, body)
		b.bytes = int64(row.ListBytes)
		return err
	})
	if err == nil && !b.known {
		b.known, err = store.Get(r, record.EntryKey(record.SettledPrefix, id), func(body []byte) error {
			o, _, err := record.DecodeSettledHead(body)
			b.bytes = int64(o.ListBytes)
			return err
		})
	}
	if err != nil {
		_, err = c.giveUp(err)
		return base{}, err
	}
	return b, nil
}

// putSize is what a write adds to what its namespace holds.
func putSize(op Op, listBytes int) int64 {
	if op == Put {
		return int64(listBytes)
	}
	return 0
}

// settlingsOf counts the changes of what is settled of an entry, and of some others.
func (s *Sizes) settlingsOf(id ID) *atomic.Uint32 {
	return &s.settlings[maphash.Comparable(s.seed, id)%uint64(len(s.settlings))]
}

// baseChanged notes that the store shows another base of an entry. The caller is in the
// store's order.
func (s *Sizes) baseChanged(id ID) {
	if s != nil {
		s.settlingsOf(id).Add(1)
	}
}

// measuring is what the admission of a write has to know of sizes.
type measuring struct {
	limit     int64
	anySize   bool // a person has decided, or upstream: the write is taken whatever the size
	trial     bool // it is only asked whether the write would be taken
	looked    bool
	base      base
	settlings uint32 // of the entry, before base was read
}

// measure reads, outside of the store's order, what the admission of a write needs.
func (p *pendingSet) measure(a *appending) (err error) {
	s := p.copies.sizes
	if s == nil {
		return nil
	}
	a.limit = s.opts.Limit(a.Namespace)
	if p.isPending(a.ID) {
		return nil
	}
	a.settlings = s.settlingsOf(a.ID).Load()
	a.base, err = p.copies.baseOf(p.store.DB(), a.ID)
	a.looked = err == nil
	return err
}

// isPending reports whether the entry has a pending write, visible or not.
func (p *pendingSet) isPending(id ID) bool {
	p.readers.RLock()
	defer p.readers.RUnlock()
	return p.waits(id)
}

// admitSize counts a write, unless it is on trial, or refuses it. The caller is in the store's
// order. latest is the entry's newest pending write, if one exists.
func (p *pendingSet) admitSize(a *appending, latest *record.Version, exists bool) (err error) {
	s := p.copies.sizes
	if s == nil {
		return nil
	}
	if !exists && (!a.looked || s.settlingsOf(a.ID).Load() != a.settlings) {
		// The entry, or another of the same hash, has settled meanwhile. That is so seldom that
		// those who wait for their place in the order can wait for a look at the store.
		if a.base, err = p.copies.baseOf(p.store.DB(), a.ID); err != nil {
			return err
		}
	}
	return s.admit(a, latest, exists)
}

// admit is [pendingSet.admitSize] with what it has read.
func (s *Sizes) admit(a *appending, latest *record.Version, exists bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(a.Namespace)
	was, removed := a.base.bytes, int64(0)
	switch {
	case exists:
		was = putSize(latest.Op, int(latest.ListBytes))
	case !a.base.known:
		removed = min(sp.removed, sp.largest)
		was = removed
	}
	now := putSize(a.Op, a.ListBytes)
	r := sp.report(a.limit)
	if grows := now - was; grows > 0 && r.Limited() && r.Bytes+grows > r.Limit && !a.anySize {
		s.note(a.Namespace, sp, a.limit, r.Bytes > 0)
		return &NamespaceFullError{Namespace: a.Namespace, Grows: grows, NamespaceSize: r}
	}
	if a.trial {
		s.note(a.Namespace, sp, a.limit, false)
		return nil
	}
	sp.pending += now
	sp.removed -= removed
	if exists {
		sp.pending -= was
	} else {
		s.settle(sp, -a.base.bytes)
	}
	s.note(a.Namespace, sp, a.limit, false)
	return nil
}

// settle changes what a namespace's entries with no pending write hold. The caller holds mu.
func (s *Sizes) settle(sp *size, by int64) {
	if sp.count != s.count {
		sp.count, sp.since = s.count, 0
	}
	sp.settled += by
	sp.since += by
}

// restored counts a pending write that an earlier process has left.
func (s *Sizes) restored(id ID, v *record.Version) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(id.Namespace).pending += putSize(v.Op, int(v.ListBytes))
}

// retired counts that an entry's last pending write has left the pending set. left is what
// the entry counts now; if it is not known, nothing of it is kept on the disk.
func (s *Sizes) retired(id ID, last *record.Version, left base) {
	if s == nil {
		return
	}
	limit := s.opts.Limit(id.Namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(id.Namespace)
	sp.pending -= putSize(last.Op, int(last.ListBytes))
	if left.known {
		s.settle(sp, left.bytes)
	} else {
		sp.removed += left.bytes
	}
	sp.largest = max(sp.largest, left.bytes)
	s.note(id.Namespace, sp, limit, false)
}

// leaves is what an entry counts once upstream has confirmed a write to it.
func (c *copies) leaves(w *Write, row *rowChange) base {
	return base{putSize(w.Op, w.ListBytes), row.kept || w.Op == Put && !c.store.Low(int64(len(w.Value)))}
}

// resizing is that an entry counts otherwise than before, as upstream has shown.
type resizing struct {
	key      string
	from, to base
}

// resized counts what upstream has shown of entries. The caller is in the store's order. An
// entry with a pending write counts with that. all says that upstream has shown everything.
func (c *copies) resized(namespace string, all bool, changes ...resizing) {
	s := c.sizes
	if s == nil || len(changes) == 0 && !all {
		return
	}
	changes = c.notPending(namespace, changes)
	limit := s.opts.Limit(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(namespace)
	for _, r := range changes {
		sp.largest = max(sp.largest, r.to.bytes)
		switch {
		case r.to.known && !r.from.known:
			sp.removed -= min(sp.removed, r.to.bytes) // it may be one of those
		case !r.to.known && r.from.known: // the disk has no room for it
			sp.removed += r.to.bytes
		}
		if !r.to.known {
			r.to.bytes = 0
		}
		s.settle(sp, r.to.bytes-r.from.bytes)
	}
	if all {
		sp.removed = 0
	}
	s.note(namespace, sp, limit, false)
}

// resize finds how the rows that differ, and the copies that go, change what their entries
// count. The caller holds the copies lock.
func (l *listed) resize(complete bool) error {
	if l.sizes == nil {
		return nil
	}
	var failed error
	from := func(key string) resizing {
		b, err := l.baseOf(l.store.DB(), ID{Namespace: l.fill.namespace, Key: key})
		failed = errors.Join(failed, err)
		return resizing{key: key, from: b}
	}
	for _, row := range l.changed {
		r := from(row.Key)
		r.to = base{int64(row.ListBytes), true}
		l.resizes = append(l.resizes, r)
	}
	removed := make(map[string]bool, len(l.removed))
	for _, key := range l.removed {
		r := from(key)
		if removed[key] = true; !complete { // its copy, if there is one, stays
			copied, err := l.head(ID{Namespace: l.fill.namespace, Key: key})
			failed = errors.Join(failed, err)
			r.to = base{int64(copied.ListBytes), copied.UpdatedAt != 0}
		}
		l.resizes = append(l.resizes, r)
	}
	for _, id := range l.absent {
		r := resizing{key: id.Key}
		if !removed[id.Key] { // else its row counted
			r = from(id.Key)
		}
		l.drops = append(l.drops, r)
	}
	return failed
}

// miscounted has the next recount find what nobody could count.
func (s *Sizes) miscounted() {
	if s != nil {
		s.outdated.Store(true)
	}
}

// notPending leaves out the entries with a pending write.
func (c *copies) notPending(namespace string, changes []resizing) (settled []resizing) {
	c.readers.RLock()
	defer c.readers.RUnlock()
	for _, r := range changes {
		if !c.pending.waits(ID{Namespace: namespace, Key: r.key}) {
			settled = append(settled, r)
		}
	}
	return settled
}

// showsRoom reports whether a confirmed write shows that upstream has room again in a
// namespace that it called full. The caller holds the copies lock.
func (c *copies) showsRoom(w *Write) (bool, error) {
	if !c.sizes.hasLearned(w.Namespace) {
		return false, nil
	}
	b, err := c.baseOf(c.store.DB(), w.ID)
	if w.Op == Delete {
		return !b.known, err // else the count says how much room
	}
	return int64(w.ListBytes) > b.bytes, err
}

func (s *Sizes) hasLearned(namespace string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[namespace]
	return sp != nil && sp.learned != nil
}

// forgetLearned ends what upstream's refusal has shown.
func (s *Sizes) forgetLearned(namespace string) {
	limit := s.opts.Limit(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(namespace)
	sp.learned = nil
	s.note(namespace, sp, limit, false)
}
