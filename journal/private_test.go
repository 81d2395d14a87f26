package journal_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// modes records how directories are made.
type modes struct {
	vfs.FS
	made map[os.FileMode]int
}

func (m *modes) MkdirAll(dir string, perm os.FileMode) error {
	m.made[perm]++
	return m.FS.MkdirAll(dir, perm)
}

// Other users cannot read the journal, the checkpoint of a migration, or the copy that a recovery
// keeps.
func TestEveryDirectoryIsMadePrivate(t *testing.T) {
	for name, use := range map[string]func(vfs.FS) error{
		"migration": func(fs vfs.FS) error {
			j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
			if err != nil {
				return err
			}
			return j.Close()
		},
		"recovery": func(fs vfs.FS) error {
			_, err := recoverAll(fs)
			return err
		},
	} {
		mem, _ := ofOlderFormat(t)
		if name == "recovery" {
			no(t, mem.Remove(mem.PathJoin(dir, "marker.manifest.000003.MANIFEST-000013")))
		}
		fs := &modes{mem, map[os.FileMode]int{}}
		no(t, use(fs))
		if len(fs.made) != 1 || fs.made[0o700] == 0 {
			t.Errorf("%s: directories were made with modes %v", name, fs.made)
		}
	}
}

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
