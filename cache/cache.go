// Package cache keeps answers in memory: bounded in bytes, judged for freshness, and
// guarded against answers that a write has overtaken.
//
// It is a cache and nothing is proved by it: Ristretto drops what it is given under
// load, may keep the older of two quick Sets, and may show a value that was just
// deleted. What makes it safe is the generation: every change of a key advances it,
// an answer is stored with the generation it was made from, and Get returns an
// answer only while its generation is the present one. So an answer made before a
// write never outlives it, whatever Ristretto does (contracts 6 and 8).
//
// The cache knows nothing of HTTP and nothing of durability.
package cache

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

const (
	// generationSlots is how many generations there are. Keys share them by hash: a
	// change of one key costs the answers of those that share its slot, a needless
	// miss each. 64 Ki of them take 512 KiB.
	generationSlots = 1 << 16
	// typicalItem is the size, in bytes, of the answers that the admission counters
	// are dimensioned for. Smaller ones make eviction less exact, nothing else.
	typicalItem = 1 << 10
	// countersPerItem is Ristretto's recommendation.
	countersPerItem = 10
	// getBuffer is Ristretto's recommendation for the size of its buffers.
	getBuffer = 64
	// itemOverhead is what an Item costs beside its body and key, in bytes.
	itemOverhead = 144
)

// Key names an answer: an entry's, or with Limit a listing's of its namespace.
type Key struct {
	Namespace string
	Key       string // empty for a listing
	Limit     int    // 0 for an entry
}

// Item is an answer. It is immutable once stored.
type Item struct {
	// Body is the encoded answer; nil says that upstream has no such entry.
	Body []byte
	// ConfirmedAt is when upstream was last known to hold this. It is zero for what
	// is pending here, which is right until the next change.
	ConfirmedAt time.Time
	// Incomplete marks a listing of which upstream could not show all.
	Incomplete bool

	key        Key
	generation uint64
}

// Generation is the state of a key at some moment: see [Cache.Generation].
type Generation uint64

// Cache is a bounded map of answers. Its methods may be called concurrently.
type Cache struct {
	items       *ristretto.Cache[uint64, *Item]
	seed        maphash.Seed
	generations [generationSlots]atomic.Uint64
	watches     watches
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

// Close ends the cache's goroutines. Nothing may be called after it.
func (c *Cache) Close() { c.items.Close() }

// Generation is the present generation of a key. Take it before looking at what an
// answer is made of, and hand it to [Cache.Put] with the answer. All listings of a
// namespace share one.
func (c *Cache) Generation(k Key) Generation {
	return Generation(c.slot(k).Load())
}

// Changed advances the generations of an entry and of its namespace's listings. It
// is to be called inside the critical section that makes the change visible.
func (c *Cache) Changed(namespace, key string) {
	if key != "" {
		c.slot(Key{Namespace: namespace, Key: key}).Add(1)
	}
	c.slot(Key{Namespace: namespace}).Add(1)
	c.watches.tell(Key{Namespace: namespace, Key: key}, Key{Namespace: namespace})
}

// Get returns the answer stored under a key, if it was made from the key's present
// state. Whether it is still fresh is for [Policy.Judge] to say.
func (c *Cache) Get(k Key) (*Item, bool) {
	hash, slot := c.hash(k)
	item, ok := c.items.Get(hash)
	if !ok || item.key != k || item.generation != slot.Load() {
		return nil, false
	}
	return item, true
}

// Put stores an answer made from the state of the key at generation g, and returns it.
// It may be dropped at once, and is never returned once the key has changed.
func (c *Cache) Put(k Key, g Generation, item Item) *Item {
	item.key, item.generation = k, uint64(g)
	hash, slot := c.hash(k)
	if slot.Load() != item.generation {
		return &item // would only push out something useful
	}
	cost := int64(len(item.Body) + len(k.Namespace) + len(k.Key) + itemOverhead)
	c.items.Set(hash, &item, cost)
	return &item
}

// hash is where the answer to a key is, and the generation that it depends on: a
// listing's is that of its namespace, whatever its limit.
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

// writeString adds a string and its end to h. A slash is in no key or namespace.
// maphash never fails to write.
func writeString(h *maphash.Hash, s string) {
	_, _ = h.WriteString(s)
	_ = h.WriteByte('/')
}
