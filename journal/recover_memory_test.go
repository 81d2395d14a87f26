package journal_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/botwired/botwired/journal"
)

// A recovery takes no more memory for more writes, and reports its progress.
func TestRecoveryIsBounded(t *testing.T) {
	const few, many = 16, 6 * 16 // MiB of writes
	small, large := recoverWrites(t, few), recoverWrites(t, many)
	t.Logf("%d MiB are held for %d MiB of writes, %d MiB for %d", small>>20, few, large>>20, many)
	// Pebble's background writes count too, and vary from one measurement to the next.
	if large > small+(many-few)<<20/2 {
		t.Errorf("%d MiB are held for %d MiB of writes, and %d MiB for %d", small>>20, few, large>>20, many)
	}
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
	var last journal.Progress
	r, err := journal.Recover(journal.RecoverOptions{Dir: at, Now: recoveredAt, Progress: func(p journal.Progress) {
		held = max(held, heap()-before)
		if p.Files < last.Files || p.Records < last.Records || p.Files > p.OfFiles {
			t.Errorf("progress is %+v after %+v", p, last)
		}
		last = p
	}})
	no(t, err)
	if r.Salvaged.Pending != n {
		t.Errorf("salvaged are %+v of %d", r.Salvaged, n)
	}
	if last.Files != last.OfFiles || last.Records != 2*n { // a write and its value
		t.Errorf("progress ends with %+v", last)
	}
	return held
}
