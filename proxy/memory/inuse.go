package memory

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// usedAtMost bounds how many namespaces are remembered to be in use. A further one is not
// listed in the background until another falls out of use.
const usedAtMost = 1024

// inUse are the namespaces that callers use. Noting a use is on the way of every request, so it
// takes no lock: a new namespace comes with a new map.
type inUse struct {
	known atomic.Pointer[map[string]*use]
	mu    sync.Mutex    // held by who changes known
	wake  chan struct{} // has one element when a namespace has come
}

// use is what the listKeeper knows of a namespace. All but recent is its own, once the namespace is known.
type use struct {
	recent   atomic.Bool // used since the listKeeper last looked
	last     time.Time   // when the listKeeper last found it used
	due      time.Time   // when it is to be looked at
	listed   bool        // it was listed once, or need not be
	failures int         // in a row
	busy     bool
}

func newInUse() *inUse {
	u := &inUse{wake: make(chan struct{}, 1)}
	u.known.Store(&map[string]*use{})
	return u
}

// note notes that a caller uses a namespace.
func (u *inUse) note(namespace string) {
	found, ok := (*u.known.Load())[namespace]
	switch {
	case !ok:
		u.add(namespace)
	case !found.recent.Load(): // else readers would share a cache line that all of them write
		found.recent.Store(true)
	}
}

func (u *inUse) add(namespace string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := *u.known.Load()
	if _, ok := now[namespace]; ok || len(now) >= usedAtMost { // guard 9.24
		return
	}
	next := maps.Clone(now)
	added := &use{due: time.Now().Add(firstListing)}
	added.recent.Store(true)
	next[namespace] = added
	u.known.Store(&next)
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// drop forgets namespaces.
func (u *inUse) drop(namespaces []string) {
	if len(namespaces) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	next := maps.Clone(*u.known.Load())
	for _, namespace := range namespaces {
		delete(next, namespace)
	}
	u.known.Store(&next)
}
