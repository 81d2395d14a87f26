package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
)

// heldTables is a file system on which a new table waits for release.
type heldTables struct {
	vfs.FS
	release chan struct{} // nil while nothing is held
}

func (h *heldTables) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if h.release != nil && strings.HasSuffix(name, ".sst") {
		<-h.release
	}
	return h.FS.Create(name, category)
}

// Pebble subtracts the memtables from the room for blocks. While one memtable is being written to a
// table and the next is in use, the same block is not read from the disk repeatedly.
func TestBlocksStayInMemoryBesideMemtables(t *testing.T) {
	fs := &heldTables{FS: vfs.NewMem()}
	s := openStore(t, fs)
	key := record.EntryKey(record.SettledPrefix, record.ID{Namespace: "ns", Key: "read"})
	write := func(key []byte, size int) {
		t.Helper()
		no(t, s.Update(ChangeFunc(func(tx *Tx) error { tx.Set(key, make([]byte, size)); return nil })))
	}
	write(key, 1000)
	no(t, s.Flush(t.Context()))
	fs.release = make(chan struct{})
	defer close(fs.release)
	for i := 0; s.db.Metrics().MemTable.Size < 2*memTableSize; i++ {
		write(record.EntryKey(record.SettledPrefix, record.ID{Namespace: "ns", Key: fmt.Sprint(i)}), 100<<10)
	}
	read := func() {
		t.Helper()
		if !holds(t, s, key) {
			t.Fatal("the record is not there")
		}
	}
	read()
	before := s.db.Metrics().BlockCache
	read()
	if after := s.db.Metrics().BlockCache; after.Misses > before.Misses || after.Hits == before.Hits {
		t.Errorf("the second read found %d blocks in memory, and %d not", after.Hits-before.Hits, after.Misses-before.Misses)
	}
}

// Pebble does not keep rewriting the settled copies because of the tombstones of pending records.
func TestMergesForTombstonesAreFew(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	random := rand.NewChaCha8([32]byte{}) // Pebble cannot compress its bytes
	const entries, together = 120_000, 50
	for first := 0; first < entries; first += together {
		id := func(i int) record.ID { return record.ID{Namespace: "ns", Key: fmt.Sprint(i * 7919 % entries)} }
		var values [together][150]byte
		var versions [together]record.Pending
		no(t, s.Update(ChangeFunc(func(tx *Tx) error {
			for i := range versions {
				_, _ = random.Read(values[i][:]) // it never fails
				versions[i] = record.Pending{Seq: tx.NextSeq(), Op: record.Put, Bytes: int32(len(values[i]))}
				tx.SetPending(id(first+i), &versions[i], nil, &record.Version{Op: versions[i].Op, Value: string(values[i][:])})
			}
			return nil
		})))
		no(t, s.Update(ChangeFunc(func(tx *Tx) error {
			for i := range versions {
				tx.DeletePending(id(first+i), &versions[i])
				tx.Set(record.EntryKey(record.SettledPrefix, id(first+i)), values[i][:])
			}
			return nil
		})))
	}
	m := s.db.Metrics()
	if m.Flush.Count < 4 || m.Compact.TombstoneDensityCount > m.Flush.Count/4 {
		t.Errorf("of %d tables from memory came %d merges for tombstones", m.Flush.Count, m.Compact.TombstoneDensityCount)
	}
}
