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

// admit is [measurer.admitSize] with what it has read.
func (s *Sizes) admit(a *appending, latest *record.Version, exists bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(a.Namespace)
	now, was, removed := putSize(a.Op, a.ListBytes), a.base.bytes, int64(0)
	a.unmeasured = !exists && !a.looked && s.defers(sp, a.limit, now)
	switch {
	case exists:
		was = putSize(latest.Op, int(latest.ListBytes))
	case a.unmeasured: // taken for wholly new: its base stays in the count
		was = 0
	case !a.looked:
		return errUnmeasured
	case !a.base.known:
		removed = min(sp.removed, sp.largest)
		was = removed
	}
	r := sp.report(a.limit)
	if grows := now - was; grows > 0 && r.Limited() && r.Bytes+grows > r.Limit && !a.anySize {
		if sp.unmeasured > 0 {
			a.crosses = true // as far as can be told: the count may be too high
			return errUnmeasured
		}
		s.note(a.Namespace, sp, a.limit, r.Bytes > 0)
		return &NamespaceFullError{Namespace: a.Namespace, Grows: grows, NamespaceSize: r}
	}
	if a.trial {
		s.note(a.Namespace, sp, a.limit, false)
		return nil
	}
	sp.pending += now
	switch {
	case exists:
		sp.pending -= was
	case a.unmeasured:
		sp.unmeasured++
	default:
		s.takeOff(sp, a.base)
	}
	s.note(a.Namespace, sp, a.limit, false)
	return nil
}

// takeOff ends that an entry counts without its pending write. An entry of which nothing is known is
// taken for the largest of the removed ones. The caller holds mu.
func (s *Sizes) takeOff(sp *size, b base) {
	if !b.known {
		sp.removed -= min(sp.removed, sp.largest)
	}
	s.settle(sp, -b.bytes)
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

// resized counts what upstream has shown of entries. The caller is in the store's order. A
// measured entry with a pending write counts with that. all says that upstream has shown everything.
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

// notPending leaves out the measured entries with a pending write.
func (c *copies) notPending(namespace string, changes []resizing) (settled []resizing) {
	c.readers.RLock()
	defer c.readers.RUnlock()
	for _, r := range changes {
		id := ID{Namespace: namespace, Key: r.key}
		if !c.pending.waits(id) || c.pending.index.Get(id).Unmeasured() {
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
