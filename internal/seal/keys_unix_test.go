//go:build unix

package seal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/seal"
)

func TestKeyFilePlaces(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, seal.Generate(), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(name, to string) string {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// As Kubernetes mounts a secret.
	if _, err := seal.Load(link("inside", "file")); err != nil {
		t.Errorf("a link inside the directory: %v", err)
	}
	for what, path := range map[string]string{
		"missing": filepath.Join(folder, "missing"), "a directory": folder,
		"a link outside": link("sub/outside", "../file"), "a dangling link": link("dangling", "missing"),
	} {
		if _, err := seal.Load(path); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.Load(file); err == nil || !strings.Contains(err.Error(), "expected 0600") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(file, 0o440); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", folder)
	if _, err := seal.Load(file); err != nil {
		t.Errorf("a credential of systemd: %v", err)
	}
}

// The key file is the daemon's own, or root's. Only a group that root has given it to may read it, too.
func TestWhoMayReadAKeyFile(t *testing.T) {
	for _, row := range []struct {
		user, owner int
		mode        os.FileMode
		ok          bool
	}{
		{7, 7, 0o600, true}, {7, 7, 0o400, true}, {7, 7, 0o640, false}, {7, 7, 0o604, false}, {7, 8, 0o600, false}, {7, 8, 0o440, false},
		{7, 0, 0o440, true}, {7, 0, 0o640, true}, {7, 0, 0o460, false}, {7, 0, 0o444, false}, {7, 0, 0o441, false},
		{0, 0, 0o600, true}, {0, 0, 0o440, false}, {0, 8, 0o600, false},
	} {
		if err := seal.PrivateTo(row.user, row.owner, row.mode); (err == nil) != row.ok {
			t.Errorf("mode %o of user %d, for user %d: %v", row.mode, row.owner, row.user, err)
		}
	}
}
