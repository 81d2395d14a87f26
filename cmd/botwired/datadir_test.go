package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
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
