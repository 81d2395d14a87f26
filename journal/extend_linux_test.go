package journal_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// A start and a recovery read a log up to its end even if the file is longer than its records, as on a
// real file system.
func TestLogWithRoomLeft(t *testing.T) {
	from := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(journal.Options{Dir: from})
	no(t, err)
	t.Cleanup(func() { no(t, j.Close()) })
	const n = 50
	for i := range n {
		put(t, j, key("%d", i), "value")
	}
	longest := int64(0)
	logs, err := filepath.Glob(filepath.Join(from, "*.log"))
	no(t, err)
	for _, name := range logs {
		info, err := os.Stat(name)
		no(t, err)
		longest = max(longest, info.Size())
	}
	if longest < 1<<20 {
		t.Skipf("the file system does not give files room ahead: the longest log has %d bytes", longest)
	}
	check := func(dir string) {
		t.Helper()
		j, err := journal.Open(journal.Options{Dir: dir})
		no(t, err)
		defer func() { no(t, j.Close()) }()
		for i := range n {
			expect(t, j, key("%d", i), journal.Value, "value")
		}
		no(t, j.Check())
	}
	killed := copied(t, from) // as after a kill
	check(killed)
	check(killed) // the files after the first start
	recovered := copied(t, from)
	no(t, os.Remove(filepath.Join(recovered, "MARK")))
	report, err := journal.Recover(journal.RecoverOptions{Dir: recovered, Now: time.Now()})
	no(t, err)
	if report.Healthy || report.Salvaged.Pending != n {
		t.Errorf("the recovery says %+v", report)
	}
	check(recovered)
}

// copied copies a journal that is open. Pebble may remove unneeded files meanwhile.
func copied(t *testing.T, from string) (to string) {
	t.Helper()
	for {
		to = filepath.Join(t.TempDir(), "journal")
		err := os.CopyFS(to, os.DirFS(from))
		if !errors.Is(err, fs.ErrNotExist) {
			no(t, err)
			return to
		}
	}
}
