// Package cache keeps answers in memory. It bounds them in bytes, judges their freshness, and drops an
// answer that a write has made outdated.
//
// Ristretto alone guarantees nothing: it drops Sets under load, may keep the older of two quick Sets,
// and may return a value that was just deleted. The generation makes it safe. Every change of a key
// advances the key's generation. Put stores an answer with the generation that it was made from. Get
// returns an answer only while its generation is the present one. So an answer made before a write
// never outlives the write, regardless of Ristretto (contracts 6 and 8).
//
// Many keys share a generation, so it may advance because of another key. A [Lease] shows exactly if
// one key has changed.
//
// The package knows nothing about HTTP or durability.
package cache

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

const (
	// generationSlots is the number of generations. Keys share them by hash, so a change of one key
	// also invalidates the answers of the other keys in its slot. 64 Ki of them take 512 KiB.
	generationSlots = 1 << 16
	// typicalItem is the assumed answer size, in bytes, for the number of admission counters. Smaller
	// answers only make eviction less exact.
	typicalItem = 1 << 10
	// countersPerItem is Ristretto's recommendation.
	countersPerItem = 10
	// getBuffer is the buffer size that Ristretto recommends.
	getBuffer = 64
	// itemOverhead is the size of an Item without its body, tag and key, in bytes.
	itemOverhead = 192
)

// Key names an answer: an entry's, or with Limit a namespace's listing.
type Key struct {
	Namespace string
	Key       string // empty for a listing
	Limit     int    // 0 for an entry
}

// Item is an answer. It is immutable once stored.
type Item struct {
	// Body is the encoded answer; nil means that upstream has no such entry.
	Body []byte
	// Tag is the entity tag of the state in Body; empty for a listing and for an absent entry. It is an
	// array, so that all answers can share it as a slice.
	Tag [1]string
	// ConfirmedAt is when upstream was last known to hold this state. It is zero for a pending write,
	// which stays right until the next change.
	ConfirmedAt time.Time
	// Doubt says why upstream's contrary answers do not count. DoubtedAt is when upstream gave the last
	// such answer; zero if it gave none. The cache does not interpret the two.
	DoubtedAt time.Time
	Doubt     uint8
	// Checked identifies the time span in which the answer stays valid until its key changes; 0 if
	// there is none. The cache does not interpret Checked.
	Checked int64
	// Outdated says that upstream is known to hold another state. Such an answer is not stored.
	Outdated bool
	// Incomplete marks a listing that may lack keys.
	Incomplete bool

	key        Key
	generation uint64
}

// Generation is the version of a key at some moment: see [Cache.Generation].
type Generation uint64

// Cache is a bounded map of answers. Its methods may be called concurrently.
type Cache struct {
	items       *ristretto.Cache[uint64, *Item]
	seed        maphash.Seed
	generations [generationSlots]atomic.Uint64
	leases      leases
}

// New returns a cache of at most memory bytes of answers, keys included.
func New(memory int64) (*Cache, error) {
	items, err := ristretto.NewCache(&ristretto.Config[uint64, *Item]{
		NumCounters: max(1, memory/typicalItem) * countersPerItem,
		MaxCost:     memory,
		BufferItems: getBuffer,
		KeyToHash:   func(hash uint64) (uint64, uint64) { return hash, 0 },
	})
	if err != nil {
		return nil, fmt.Errorf("cache of %d bytes: %w", memory, err)
	}
	return &Cache{items: items, seed: maphash.MakeSeed()}, nil
}

// Close stops the cache's goroutines. Call no other method afterwards.
func (c *Cache) Close() { c.items.Close() }

// Generation returns the present generation of a key. Take it before reading the state that an answer
// is made from, and pass it to [Cache.Put] with the answer. All listings of a namespace share one
// generation.
func (c *Cache) Generation(k Key) Generation {
	return Generation(c.slot(k).Load())
}

// Changed advances the generations of an entry and of its namespace's listings, and revokes their
// leases. Call it inside the critical section that makes the change visible.
func (c *Cache) Changed(namespace, key string) {
	c.ChangedElsewhere(namespace, key)
	c.leases.revoke(Key{Namespace: namespace, Key: key}, Key{Namespace: namespace})
}

// ChangedElsewhere advances the generations for a change upstream that is not in the journal. It
// revokes no lease: the answer to a request in flight is still the one that its reader asked for. If
// the answer were dropped, an entry that changes all the time could never be read.
func (c *Cache) ChangedElsewhere(namespace, key string) {
	if key != "" {
		c.slot(Key{Namespace: namespace, Key: key}).Add(1)
	}
	c.slot(Key{Namespace: namespace}).Add(1)
}

// Get returns the answer stored under a key if it was made from the key's present state, or nil.
// [Policy.Judge] judges its freshness. Get also returns the key's generation from before the lookup. A
// caller that gets nil makes the answer, and passes both to [Cache.Put].
func (c *Cache) Get(k Key) (*Item, Generation) {
	hash, slot := c.hash(k)
	present := slot.Load()
	item, ok := c.items.Get(hash)
	if !ok || item.key != k || item.generation != present { // guard 6.2
		return nil, Generation(present)
	}
	return item, Generation(present)
}

// Put stores an answer made from the state of the key at generation g, and returns it.
// The cache may drop it at once. Get never returns it once the key has changed.
func (c *Cache) Put(k Key, g Generation, item Item) *Item {
	item.key, item.generation = k, uint64(g)
	hash, slot := c.hash(k)
	if slot.Load() != item.generation {
		return &item // storing it would only evict something useful
	}
	cost := int64(len(item.Body) + len(item.Tag[0]) + len(k.Namespace) + len(k.Key) + itemOverhead)
	c.items.Set(hash, &item, cost)
	return &item
}

// Await waits until Get finds the answers that were put before, unless Ristretto has dropped them.
// Ristretto stores them in the background.
func (c *Cache) Await() { c.items.Wait() } // guard 9.5

// Size returns the size of the answers in bytes, keys included, and its bound.
func (c *Cache) Size() (used, budget int64) {
	budget = c.items.MaxCost()
	return budget - c.items.RemainingCost(), budget
}

// hash returns the hash under which the answer to a key is stored, and the generation that the answer
// depends on. Listings of a namespace share a generation for all limits.
func (c *Cache) hash(k Key) (uint64, *atomic.Uint64) {
	var h maphash.Hash
	h.SetSeed(c.seed)
	writeString(&h, k.Namespace)
	writeString(&h, k.Key)
	hash := h.Sum64()
	slot := &c.generations[hash%generationSlots]
	if k.Limit != 0 {
		maphash.WriteComparable(&h, k.Limit)
		hash = h.Sum64()
	}
	return hash, slot
}

func (c *Cache) slot(k Key) *atomic.Uint64 {
	_, slot := c.hash(k)
	return slot
}

// writeString adds a string and an end mark to h. Keys and namespaces contain no slash, and maphash
// never fails to write.
func writeString(h *maphash.Hash, s string) {
	_, _ = h.WriteString(s)
	_ = h.WriteByte('/')
}

// Lease shows whether its key has changed since the lease was taken, like a lease in memcached. A
// generation shows less: it also advances when another key that shares it changes. An answer that is
// cheap to make again may be dropped for that. An answer that took a request upstream must not be:
// next to a busy key, it would be dropped every time.
type Lease struct {
	leases  *leases
	key     Key
	changes atomic.Int64
}

// Lease takes a lease on a key. All listings of a namespace are one key. The caller must release the
// lease.
func (c *Cache) Lease(k Key) *Lease {
	k.Limit = 0
	l := &Lease{leases: &c.leases, key: k}
	c.leases.add(l)
	return l
}

// Revoked reports whether the key has changed since the lease was taken. Inside the critical section
// that makes changes visible, the result is exact.
func (l *Lease) Revoked() bool { return l.Changes() > 0 }

// Changes returns how often the key has changed since the lease was taken. The holder's own changes
// count too.
func (l *Lease) Changes() int64 { return l.changes.Load() }

// Release ends the lease.
func (l *Lease) Release() { l.leases.remove(l) }

// leases holds all unreleased leases. Changes are frequent and leases are rare, so count lets a change
// skip the lock. If a change reads 0, it becomes visible before the holder of a concurrent new lease
// can look.
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
