package journal_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// A recovery takes no more memory for more writes, and reports its progress.
func TestRecoveryIsBounded(t *testing.T) {
	const few, many = 16, 6 * 16 // MiB of writes
	// Pebble's background writes count too, and vary from one measurement to the next, so there are three.
	for range 3 {
		small, large := recoverWrites(t, few), recoverWrites(t, many)
		t.Logf("%d MiB are held for %d MiB of writes, %d MiB for %d", small>>20, few, large>>20, many)
		if large <= small+(many-few)<<20/2 {
			return
		}
	}
	t.Error("it takes more for more writes, three times")
}

// heap returns how many bytes of heap are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// recoverWrites recovers a journal with this many MiB of pending writes, and returns the maximum memory
// that it took.
func recoverWrites(t *testing.T, mebibytes int) (held int64) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(journal.Options{Dir: at})
	no(t, err)
	no(t, j.Run(t.Context()))
	value := strings.Repeat("v", 64<<10)
	n := mebibytes << 20 / len(value)
	together(8, func(g int) {
		for i := g; i < n; i += 8 {
			put(t, j, key("%d", i), value)
		}
	})
	no(t, j.Close())
	no(t, os.Remove(filepath.Join(at, "MARK")))
	manifests, err := filepath.Glob(filepath.Join(at, "MANIFEST-*"))
	no(t, err)
	for _, name := range manifests {
		no(t, os.Remove(name)) // so that Pebble shows none of it
	}
	before := heap()
	var mu sync.Mutex // Pebble also writes in the background
	writes := 0
	watched := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			if writes++; writes%50 == 0 {
				held = max(held, heap()-before)
			}
		}
		return nil
	}))
	last, all := 0, 0
	r, err := journal.Recover(journal.RecoverOptions{Dir: at, FS: watched, Now: recoveredAt, Progress: func(read, of int) {
		if read != last+1 || read > of {
			t.Errorf("progress is %d of %d after %d", read, of, last)
		}
		last, all = read, of
	}})
	no(t, err)
	if r.Salvaged.Pending != n {
		t.Errorf("salvaged are %+v of %d", r.Salvaged, n)
	}
	if last != all {
		t.Errorf("progress ends with %d of %d", last, all)
	}
	return held
}
