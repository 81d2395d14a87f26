package queue

import "sync"

// Readers guards what readers see: the index of pending writes, and the copies that are not durable yet. Its
// holders work in memory only. Changes that are [store.Early], such as those that settle a write or take upstream's answer,
// also apply one unsynced batch under it, so that a reader always finds a write either pending or settled.
type Readers struct {
	sync.RWMutex
	notify func(Change) // see Subscribe
	// watchers wait for an entry's next change: see [Receipts.Await].
	watchers map[ID][]chan struct{}
	// notDurable has an open channel for each entry (or listing, with an empty key) that a change shows in another
	// state, and that is not durable yet. Readers wait for the channel, so that no answer shows a state that a power
	// cut could undo (contract 7). Settling hides nothing: the copy has the state of the pending write, which is durable.
	notDurable map[ID]chan struct{}
}

// NewReaders returns the lock of a journal that nobody uses yet.
func NewReaders() *Readers { return &Readers{notDurable: make(map[ID]chan struct{})} }

// Subscribe has notify called after every change: see [Change]. Nobody uses the journal yet.
func (l *Readers) Subscribe(notify func(Change)) { l.notify = notify }

// Changed notifies the subscriber and the watchers. The caller holds the lock.
func (l *Readers) Changed(c Change) {
	if len(l.watchers) > 0 {
		for _, w := range l.watchers[c.ID] {
			close(w)
		}
		delete(l.watchers, c.ID)
	}
	if l.notify != nil {
		l.notify(c)
	}
}

// Count returns how many entries and listings make readers wait, and how many entries are watched.
func (l *Readers) Count() (hidden, watched int) {
	l.RLock()
	defer l.RUnlock()
	return len(l.notDurable), len(l.watchers)
}

// Hidden returns the channel that readers of an entry's copy, or of a listing, wait for, or nil if they
// need not wait.
func (l *Readers) Hidden(id ID) <-chan struct{} {
	l.RLock()
	defer l.RUnlock()
	if durable, ok := l.notDurable[id]; ok {
		return durable
	}
	return nil
}

// WhenDurable calls do with the lock once readers of an entry's copy, or of a listing, need not wait.
func (l *Readers) WhenDurable(id ID, do func()) {
	for {
		l.RLock()
		durable := l.notDurable[id]
		if durable == nil {
			defer l.RUnlock()
			do()
			return
		}
		l.RUnlock()
		<-durable
	}
}

// Hiding is embedded in a change that the store applies before the change is durable. Readers wait meanwhile.
type Hiding struct {
	revealed func() // nil while no reader waits
}

// Hide makes readers of the given entries and listings wait for [Hiding.Reveal]. The caller holds the lock.
func (h *Hiding) Hide(readers *Readers, ids ...ID) {
	durable := make(chan struct{})
	for _, id := range ids {
		readers.notDurable[id] = durable
	}
	h.revealed = func() {
		readers.Lock()
		defer readers.Unlock()
		for _, id := range ids {
			if readers.notDurable[id] == durable {
				delete(readers.notDurable, id)
			}
		}
		close(durable)
	}
}

// Durable does nothing: Applied has already shown the change.
func (*Hiding) Durable() {}

// Reveal lets the readers go on.
func (h *Hiding) Reveal() {
	if h.revealed != nil {
		h.revealed()
	}
}
