package journal

import (
	"errors"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
)

// errUnmeasured says that a write needs a look at the store before its size can be judged.
var errUnmeasured = errors.New("the namespace has unmeasured entries")

// deferBelow is the percentage of its limit below which a namespace's writes are taken unmeasured
// again, once they were not. It is well below nearFullNoMore, so that a namespace is not measured
// at every other write.
const deferBelow = 50

// measuring is what the admission of a write has to know of sizes.
type measuring struct {
	limit      int64
	anySize    bool // a person has decided, or upstream: the write is taken whatever the size
	trial      bool // it is only asked whether the write would be taken
	insists    bool // without a look at the store, the write was neither taken nor refused
	crosses    bool // as the write would cross the limit, by a count that may be too high
	looked     bool
	base       base
	settlings  uint32 // of the entry, before base was read
	unmeasured bool   // the write was taken without a look at the store
}

// measurer finds what the entries with a pending write count without it: see [Sizes].
type measurer struct{ *pendingSet }

// whenMeasured calls admit with what the admission of a write needs, and again if the write turns out
// to need more. admit returns the error of [measurer.admitSize]. For a write near the limit, no other
// write is taken unmeasured before the second call: else the count might never be exact at admit.
func (m *measurer) whenMeasured(a *appending, admit func() error) error {
	for exact := false; ; {
		if err := m.measure(a); err != nil {
			return err
		}
		err := admit()
		if !errors.Is(err, errUnmeasured) {
			return err
		}
		a.insists = true
		if a.crosses && !exact {
			exact = true
			defer m.copies.sizes.needExact(a.Namespace)()
		}
	}
}

// measure reads, outside of the store's order, what the admission of a write needs: nothing, far
// from the limit.
func (m *measurer) measure(a *appending) (err error) {
	s := m.copies.sizes
	if s == nil {
		return nil
	}
	a.looked, a.limit = false, s.opts.Limit(a.Namespace)
	defers, counts := s.needs(a)
	if defers {
		return nil
	}
	if counts {
		err = s.countAll(a.Namespace, nil)
	}
	if err != nil || m.isPending(a.ID) {
		return err
	}
	a.settlings = s.settlingsOf(a.ID).Load()
	a.base, err = m.copies.baseOf(m.store.DB(), a.ID)
	a.looked = err == nil
	return err
}

// admitSize counts a write, unless it is on trial, or refuses it, with [errUnmeasured] until it has
// been measured. The caller is in the store's order. latest is the entry's newest pending write, if
// one exists.
func (m *measurer) admitSize(a *appending, latest *record.Version, exists bool) (err error) {
	s := m.copies.sizes
	if s == nil {
		return nil
	}
	if !exists && a.looked && s.settlingsOf(a.ID).Load() != a.settlings {
		// The entry, or another of the same hash, has settled meanwhile. That is so seldom that
		// those who wait for their place in the order can wait for a look at the store.
		if a.base, err = m.copies.baseOf(m.store.DB(), a.ID); err != nil {
			return err
		}
	}
	return s.admit(a, latest, exists)
}

// needs reports whether a write will be taken unmeasured, as far as can be told now, and else whether
// the namespace is counted first: if the write would cross the limit, or is the first put near it.
// Other writes, as many as there are, do not wait for that.
func (s *Sizes) needs(a *appending) (defers, counts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[a.Namespace]
	if sp == nil {
		sp = &size{}
	}
	defers = s.defers(sp, a.limit, putSize(a.Op, a.ListBytes)) && !a.trial && !a.anySize && !a.insists
	isFirst := sp.exact && sp.exacting == 0 && a.Op == Put && !a.anySize
	return defers, sp.unmeasured > 0 && (a.crosses || isFirst)
}

// needExact has no write to a namespace taken unmeasured until release is called.
func (s *Sizes) needExact(namespace string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(namespace)
	sp.exacting++
	return func() {
		limit := s.opts.Limit(namespace)
		s.mu.Lock()
		defer s.mu.Unlock()
		sp.exacting--
		s.note(namespace, sp, limit, false)
	}
}

// defers reports whether a write that adds so many bytes at the most is taken unmeasured: even if
// it is wholly new, the namespace stays far from its limit. The caller holds mu.
func (s *Sizes) defers(sp *size, limit, adds int64) bool {
	if !s.deferring || sp.exacting > 0 || sp.learned != nil {
		return false
	}
	most := sp.bytes() + adds
	switch {
	case limit == 0:
		return true
	case most*100 >= limit*nearFullNoMore:
		sp.exact = true
	case sp.unmeasured == 0 && most*100 < limit*deferBelow:
		sp.exact = false
	}
	return !sp.exact
}

// show calls look with the size of a namespace, nil if it holds nothing, and with mu held. The size is
// exact until the journal is closed. The caller is none of the journal's methods.
func (s *Sizes) show(namespace string, look func(*size)) {
	if s.journal != nil && s.journal.store.Acquire() == nil {
		defer s.journal.store.Release()
		_ = s.countAll(namespace, look) // a failing disk ends the process
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	look(s.spaces[namespace])
}

// countAll makes the count of a namespace exact, and calls then, if it is not nil, before a write
// is taken unmeasured again, with mu held and nil for a namespace that holds nothing. The caller
// keeps the store from being closed, and holds no lock but perhaps the copies lock.
func (s *Sizes) countAll(namespace string, then func(*size)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[namespace]
	var err error
	if sp != nil && sp.unmeasured > 0 {
		sp.exacting++
		err = s.walk(namespace, sp)
		sp.exacting--
		s.note(namespace, sp, s.opts.Limit(namespace), false)
		sp = s.spaces[namespace]
	}
	if then != nil {
		then(sp)
	}
	return err
}

// walk has the unmeasured entries of a namespace measured, by one caller at a time: the next one finds
// none left. The caller holds mu, which walk releases meanwhile, and has made sure that none is added.
func (s *Sizes) walk(namespace string, sp *size) (err error) {
	for sp.walking != nil {
		others := sp.walking
		s.mu.Unlock()
		<-others
		s.mu.Lock()
	}
	if sp.unmeasured == 0 {
		return nil
	}
	done := make(chan struct{})
	sp.walking = done
	s.mu.Unlock()
	err = s.journal.all(namespace)
	s.mu.Lock()
	sp.walking = nil
	close(done)
	return err
}

// all measures the unmeasured entries of a namespace. None is added meanwhile.
func (m *measurer) all(namespace string) error {
	var ids []ID
	m.store.InOrder(func(record.Totals) {}) // a write that was admitted before is in the index
	for _, space := range m.spaces(namespace) {
		for cursor, done := 0, false; !done; {
			m.readers.RLock()
			cursor, done = space.WalkUnmeasured(cursor, walkChunk, func(e *pending.Entry) { ids = append(ids, e.ID()) })
			m.readers.RUnlock()
			if err := m.takeOff(ids); err != nil {
				return err
			}
			ids = ids[:0]
		}
	}
	return nil
}

// one measures an entry that a change is about to take out of the pending set. The caller
// holds the copies lock, which keeps the entry measured.
func (m *measurer) one(id ID) error {
	if m.copies.sizes == nil || !m.isUnmeasured(id) {
		return nil
	}
	return m.takeOff([]ID{id})
}

func (m *measurer) isUnmeasured(id ID) bool {
	m.readers.RLock()
	defer m.readers.RUnlock()
	return m.index.Get(id).Unmeasured()
}

// takeOff reads what entries of one namespace count without their pending writes, and takes it off
// the count of those that are unmeasured.
func (m *measurer) takeOff(ids []ID) (err error) {
	s := m.copies.sizes
	found := make([]measuring, len(ids))
	for i, id := range ids {
		found[i].settlings = s.settlingsOf(id).Load()
		if found[i].base, err = m.copies.baseOf(m.store.DB(), id); err != nil {
			return err
		}
	}
	m.store.InOrder(func(record.Totals) {
		for i, id := range ids {
			if s.settlingsOf(id).Load() != found[i].settlings { // as in admitSize
				if found[i].base, err = m.copies.baseOf(m.store.DB(), id); err != nil {
					return
				}
			}
			m.hasBase(id, found[i].base)
		}
	})
	return err
}

// oneInOrder is [measurer.one] for a caller in the store's order, when all earlier updates are applied.
func (m *measurer) oneInOrder(id ID) error {
	if m.copies.sizes == nil || !m.isUnmeasured(id) {
		return nil
	}
	b, err := m.copies.baseOf(m.store.DB(), id)
	if err == nil {
		m.hasBase(id, b)
	}
	return err
}

// hasBase ends that an entry is unmeasured, if it is. The caller is in the store's order.
func (m *measurer) hasBase(id ID, b base) {
	m.readers.Lock()
	e := m.index.Get(id)
	ends := e.Unmeasured()
	if ends {
		e.SetUnmeasured(false)
	}
	m.readers.Unlock()
	if ends {
		m.copies.sizes.measured(id.Namespace, b)
	}
}

// measured counts an entry with its pending write only.
func (s *Sizes) measured(namespace string, b base) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(namespace)
	sp.unmeasured--
	s.takeOff(sp, b)
}

// stopDeferring makes all counts exact, and keeps them so until the end of the next recount.
func (s *Sizes) stopDeferring() error {
	s.mu.Lock()
	s.deferring = false
	var namespaces []string
	for namespace, sp := range s.spaces {
		if sp.unmeasured > 0 {
			namespaces = append(namespaces, namespace)
		}
	}
	s.mu.Unlock()
	for _, namespace := range namespaces {
		if err := s.countAll(namespace, nil); err != nil {
			return err
		}
	}
	return nil
}

// attach has the sizes measure the entries of a journal.
func (s *Sizes) attach(m *measurer) {
	if s != nil {
		s.journal = m
	}
}
