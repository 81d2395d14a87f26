package journal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// contents returns the files under a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	no(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	}))
	return files
}

// remedies are parts of what the errors say to do about a directory of another version.
var remedies = map[string]string{
	"older format": "start the version of botwired that wrote it, run botwired flush there",
	"newer format": "use the newer version of botwired that wrote it",
}

// contract 21: a directory of another format is refused and stays unmodified.
func TestForeignDirectoryIsRefusedUnmodified(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"newer format":       {"FORMAT": "botwired journal 7\n", "MANIFEST-000001": "x"},
		"older format":       {"FORMAT": "botwired journal 5\n", "MANIFEST-000001": "x"},
		"other format":       {"FORMAT": "something else\n"},
		"empty format":       {"FORMAT": ""},
		"another's store":    {"MANIFEST-000001": "x", "000002.log": "y"},
		"log without format": {"000002.log": "y"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range files {
				no(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			before := contents(t, dir)
			_, err := journal.Open(journal.Options{Dir: dir})
			if !errors.Is(err, journal.ErrFormat) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v", err)
			}
			if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
				t.Error(diff)
			}
			if remedies[name] == "" {
				return
			}
			_, unrecovered := journal.Recover(journal.RecoverOptions{Dir: dir, FS: vfs.Default})
			for _, err := range []error{err, unrecovered} {
				if err == nil || !strings.Contains(err.Error(), remedies[name]) {
					t.Errorf("the error does not say what to do (%s): %v", remedies[name], err)
				}
			}
		})
	}
}

func TestDirectoryIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "too")
	j, err := journal.Open(journal.Options{Dir: dir})
	no(t, err)
	defer func() { no(t, j.Close()) }()
	info, err := os.Stat(dir)
	no(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode is %v", info.Mode())
	}
	if text, err := os.ReadFile(filepath.Join(dir, "FORMAT")); err != nil || string(text) != "botwired journal 6\n" {
		t.Errorf("FORMAT is %q, %v", text, err)
	}
}

// contract 20
func TestSecondOpenIsRefused(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"disk": vfs.Default, "memory": vfs.NewMem()} {
		t.Run(name, func(t *testing.T) {
			opts := journal.Options{Dir: filepath.Join(t.TempDir(), "j"), FS: fs}
			first, err := journal.Open(opts)
			no(t, err)
			put(t, first, key("a"), "1")
			mustBeInUse(t, opts)
			no(t, first.Close())

			// A process that only holds the lock does not touch the files.
			lock, err := pebble.LockDirectory(opts.Dir, fs)
			no(t, err)
			before := contents(t, filepath.Dir(opts.Dir))
			mustBeInUse(t, opts)
			if diff := cmp.Diff(before, contents(t, filepath.Dir(opts.Dir))); diff != "" {
				t.Error(diff)
			}
			no(t, lock.Close())
			again, err := journal.Open(opts)
			no(t, err)
			expect(t, again, key("a"), journal.Value, "1")
			no(t, again.Close())
		})
	}
}

func mustBeInUse(t *testing.T, opts journal.Options) {
	t.Helper()
	if _, err := journal.Open(opts); !errors.Is(err, journal.ErrInUse) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %v", err)
	}
}

// After a power cut at any moment of the first start, the directory can be opened.
func TestCreationCutOff(t *testing.T) {
	create := func(fs vfs.FS) {
		j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
		no(t, err)
		no(t, j.Close())
	}
	atChanges(t, vfs.NewCrashableMem(), 1, create, func(i int, fs *vfs.MemFS) {
		j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
		if err != nil {
			t.Errorf("moment %d: %v", i, err)
			return
		}
		err = j.Run(context.Background())
		put(t, j, key("a"), "1")
		if err = errors.Join(err, j.Close()); err != nil {
			t.Errorf("moment %d: %v", i, err)
		}
		expect(t, open(t, crash(fs)), key("a"), journal.Value, "1")
	})
}

// contract 4: a start that is cut off is no damage, neither at the next start nor at the one after that.
func TestStartCutOff(t *testing.T) {
	start := func(fs vfs.FS) { no(t, open(t, fs).Close()) }
	atChanges(t, goldenCopy(t), 1, start, func(_ int, fs *vfs.MemFS) {
		j := open(t, fs)
		put(t, j, key("after"), "1")
		left := crash(fs)
		no(t, j.Close())
		j = open(t, left)
		expect(t, j, key("after"), journal.Value, "1")
		no(t, j.Close())
	})
}
