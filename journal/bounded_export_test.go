package journal

import "github.com/cockroachdb/pebble/v2"

// FlushStore has Pebble write its memtable into a table, and begin another one.
func (j *Journal) FlushStore() error { return j.store.DB().(*pebble.DB).Flush() }

// StoreMemory is what Pebble's memtables and its cache of blocks take, in bytes. They are bounded, whatever the
// journal holds.
func (j *Journal) StoreMemory() int64 {
	m := j.store.DB().(*pebble.DB).Metrics()
	return int64(m.MemTable.Size) + int64(m.MemTable.ZombieSize) + m.BlockCache.Size
}
