package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/botwired/botwired/config"
)

// An existing data directory becomes private, unless other programs use it too: making /tmp private
// would harm them.
func TestKeepOthersOut(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean something else there")
	}
	for name, test := range map[string]struct {
		holds string
		mode  os.FileMode
	}{
		"empty":    {"", 0o700},
		"ours":     {"memory.db-wal", 0o700},
		"bound":    {"UPSTREAM", 0o700},
		"a host":   {"HOST", 0o700},
		"repaired": {"journal.damaged-20260102T030405Z", 0o700},
		"a shared": {"somebody's", 0o755},
		"named so": {"journalist", 0o755},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if test.holds != "" {
			if err := os.WriteFile(filepath.Join(dir, test.holds), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		keepOthersOut(dir, slog.New(slog.NewTextHandler(&log, nil)))
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != test.mode {
			t.Errorf("%s: %v, %v; want mode %v", name, info, err, test.mode)
		}
		if warned := log.Len() > 0; warned != (test.mode != 0o700) {
			t.Errorf("%s: log %q", name, log.String())
		}
	}
}

// Another user, who can write into a shared data directory, has put a directory, a file or a link there
// under one of botwired's names: the daemon does not use it.
func TestWhatAnotherUserHasPlanted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean something else there")
	}
	const other = 4321
	chown := func(t *testing.T, name string) {
		t.Helper()
		if os.Geteuid() != 0 {
			t.Skip("only root can give a file to another user")
		}
		no(t, os.Lchown(name, other, other))
	}
	for name, plant := range map[string]func(t *testing.T, dir string){
		"belongs to user 4321": func(t *testing.T, dir string) {
			no(t, os.Mkdir(filepath.Join(dir, journalDir), 0o777))
			chown(t, filepath.Join(dir, journalDir))
		},
		"journal.quota belongs to user 4321": func(t *testing.T, dir string) {
			no(t, os.WriteFile(filepath.Join(dir, quotaFile), nil, 0o600))
			chown(t, filepath.Join(dir, quotaFile))
		},
		"journal.quota.new belongs to user 4321": func(t *testing.T, dir string) {
			no(t, os.Symlink(t.TempDir(), filepath.Join(dir, quotaFile+".new")))
			chown(t, filepath.Join(dir, quotaFile+".new"))
		},
		"belongs to user 4321, who": func(t *testing.T, dir string) { // behind a link of the user's own
			there := t.TempDir()
			chown(t, there)
			no(t, os.Symlink(there, filepath.Join(dir, journalDir)))
		},
		"chmod 700": func(t *testing.T, dir string) {
			no(t, os.Mkdir(filepath.Join(dir, journalDir), 0o700))
			no(t, os.Chmod(filepath.Join(dir, journalDir), 0o777))
		},
		"": func(t *testing.T, dir string) {
			no(t, os.WriteFile(filepath.Join(dir, "somebody's"), nil, 0o666))
			if os.Geteuid() == 0 {
				chown(t, filepath.Join(dir, "somebody's"))
			}
			no(t, os.Symlink(t.TempDir(), filepath.Join(dir, journalDir))) // the user's own, to another disk
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plant(t, dir)
			err := refusePlanted(dir)
			if name == "" && err != nil || name != "" && (err == nil || !strings.Contains(err.Error(), name)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Neither does the memory service write values into a database that another user has put into its data directory.
func TestADatabaseThatAnotherUserHasPlanted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	c := &config.Config{DataDir: t.TempDir()}
	database := filepath.Join(c.DataDir, "memory.db")
	no(t, databaseDir(c, database))
	no(t, os.WriteFile(database, nil, 0o666))
	no(t, databaseDir(c, database))
	no(t, os.Lchown(database, 4321, 4321))
	if err := databaseDir(c, database); err == nil || !strings.Contains(err.Error(), "memory.db belongs to user 4321") {
		t.Errorf("%v", err)
	}
}
