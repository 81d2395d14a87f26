package cache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Watch tells whether one key has changed since it began. A generation may advance
// for another key that shares it, which is good enough for what can be made again,
// and not for an answer that took a request upstream: beside a busy key such answers
// would be dropped for ever.
type Watch struct {
	watches *watches
	key     Key
	changed atomic.Bool
}

// Watch begins to watch a key, all listings of a namespace being one. Stop must be
// called.
func (c *Cache) Watch(k Key) *Watch {
	k.Limit = 0
	w := &Watch{watches: &c.watches, key: k}
	c.watches.add(w)
	return w
}

// Changed reports whether the key has changed. Inside the critical section that makes
// changes visible, the answer is exact.
func (w *Watch) Changed() bool { return w.changed.Load() }

// Stop ends the watch.
func (w *Watch) Stop() { w.watches.remove(w) }

// watches are those under way. Changes come often and watches seldom: count spares
// the former the lock. A change that reads 0 is made visible before a watch that
// begins at the same time can look.
type watches struct {
	count atomic.Int64
	mu    sync.Mutex
	byKey map[Key][]*Watch
}

func (s *watches) add(w *Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = make(map[Key][]*Watch)
	}
	s.byKey[w.key] = append(s.byKey[w.key], w)
	s.count.Add(1)
}

func (s *watches) remove(w *Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(s.byKey[w.key], func(o *Watch) bool { return o == w })
	if len(rest) == 0 {
		delete(s.byKey, w.key)
	} else {
		s.byKey[w.key] = rest
	}
	s.count.Add(-1)
}

// tell marks the watches of the keys as changed.
func (s *watches) tell(keys ...Key) {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		for _, w := range s.byKey[k] {
			w.changed.Store(true)
		}
	}
}
