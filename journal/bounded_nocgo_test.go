//go:build !cgo

package journal_test

// storeInHeap says that Pebble's memtables and caches are in Go's heap.
const storeInHeap = 1
