package cache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Lease lets its holder keep an answer only if the key has not changed since the lease
// was taken (as leases in memcached do). A generation may advance for another key that
// shares it. The cache may drop an answer for that if it is cheap to make again, but not if
// it took a request upstream: beside a busy key such answers would be dropped for ever.
type Lease struct {
	leases  *leases
	key     Key
	changes atomic.Int64
}

// Lease takes a lease on a key; all listings of a namespace are one key. The caller
// must release it.
func (c *Cache) Lease(k Key) *Lease {
	k.Limit = 0
	l := &Lease{leases: &c.leases, key: k}
	c.leases.add(l)
	return l
}

// Revoked reports whether the key has changed since the lease was taken. Inside the
// critical section that makes changes visible, the answer is exact.
func (l *Lease) Revoked() bool { return l.Changes() > 0 }

// Changes returns how often the key has changed since the lease was taken: its holder's own
// change is one, and another is somebody else's.
func (l *Lease) Changes() int64 { return l.changes.Load() }

// Release ends the lease.
func (l *Lease) Release() { l.leases.remove(l) }

// leases holds all leases that have not been released. Changes are frequent and leases
// are rare, so count lets a change go without the lock. A change that reads 0 is visible
// before the holder of a lease that begins at the same time can look.
type leases struct {
	count atomic.Int64
	mu    sync.Mutex // guards byKey
	byKey map[Key][]*Lease
}

func (s *leases) add(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = make(map[Key][]*Lease)
	}
	s.byKey[l.key] = append(s.byKey[l.key], l)
	s.count.Add(1)
}

func (s *leases) remove(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(s.byKey[l.key], func(o *Lease) bool { return o == l })
	if len(rest) == 0 {
		delete(s.byKey, l.key)
	} else {
		s.byKey[l.key] = rest
	}
	s.count.Add(-1)
}

// revoke revokes the leases on the keys.
func (s *leases) revoke(keys ...Key) {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		for _, l := range s.byKey[k] {
			l.changes.Add(1)
		}
	}
}
