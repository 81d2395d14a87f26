package journal_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/botwired/botwired/journal"
)

// The first use makes an existing directory private.
func TestDirectoryBecomesPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean something else there")
	}
	dir := filepath.Join(t.TempDir(), "journal")
	no(t, os.Mkdir(dir, 0o700))
	no(t, os.Chmod(dir, 0o2755))
	var log bytes.Buffer
	j, err := journal.Open(journal.Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	no(t, err)
	defer func() { no(t, j.Close()) }()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || log.Len() != 0 {
		t.Errorf("%v, %v, log %q", info.Mode(), err, &log)
	}
}
