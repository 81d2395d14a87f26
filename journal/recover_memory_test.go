package journal_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/botwired/botwired/journal"
)

// A recovery takes no more memory for more writes, and says how far it is.
func TestRecoveryIsBounded(t *testing.T) {
	small, few := recoverWrites(t, 16)
	large, many := recoverWrites(t, 4*16)
	t.Logf("%d MiB are held for %d writes, %d MiB for %d", small>>20, few, large>>20, many)
	if many < 3*few {
		t.Fatalf("%d and %d writes were salvaged", few, many)
	}
	if large > small+(16<<20) {
		t.Errorf("%d MiB are held for %d writes, and %d MiB for %d", small>>20, few, large>>20, many)
	}
}

// recoverWrites recovers a journal with so many MiB of pending writes, and returns the most that
// was held in memory meanwhile.
func recoverWrites(t *testing.T, mebibytes int) (held uint64, writes int) {
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
		no(t, os.Remove(name)) // so that Pebble shows nothing of it
	}
	var last journal.Progress
	r, err := journal.Recover(journal.RecoverOptions{Dir: at, Now: recoveredAt, Progress: func(p journal.Progress) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		held = max(held, m.HeapAlloc)
		if p.Files < last.Files || p.Records < last.Records || p.Files > p.OfFiles {
			t.Errorf("progress is %+v after %+v", p, last)
		}
		last = p
	}})
	no(t, err)
	if r.Salvaged.Pending != n {
		t.Errorf("salvaged are %+v of %d", r.Salvaged, n)
	}
	if last.Files != last.OfFiles || last.Records != n {
		t.Errorf("progress ends with %+v", last)
	}
	return held, r.Salvaged.Pending
}
