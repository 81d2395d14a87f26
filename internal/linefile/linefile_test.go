package linefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/linefile"
)

func TestFilesAreReplaced(t *testing.T) {
	name := filepath.Join(t.TempDir(), "HOST")
	if _, err := linefile.Read(name); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, text := range []string{"one", "two\nlines"} {
		if err := linefile.Write(name, text); err != nil {
			t.Fatal(err)
		}
		if got, err := linefile.Read(name); err != nil || string(got) != text+"\n" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// A directory, or a large file, is nothing that botwired has written.
func TestForeignFiles(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{large, t.TempDir()} {
		if _, err := linefile.Read(name); !errors.Is(err, linefile.ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Another user may have put a link where botwired writes.
func TestAPlantedLinkIsNotFollowed(t *testing.T) {
	name, target := filepath.Join(t.TempDir(), "UPSTREAM"), filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("Windows lets only some users make links")
	}
	if err := os.Symlink(target, name+".new"); err != nil {
		t.Fatal(err)
	}
	if err := linefile.Write(name, "ours"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "theirs" {
		t.Errorf("%q, %v", text, err)
	}
}
