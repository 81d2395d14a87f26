package mcpconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/mcpconfig"
)

var noon = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)

func to(text string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return []byte(text), nil }
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// wantFiles checks the texts of all files of a directory.
func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Name()] = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", dir, diff)
	}
}

// An edit keeps the file before beside it, its mode, and the symbolic link that leads to it.
func TestEdit(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	file, link := filepath.Join(dir, "c.json"), filepath.Join(links, "c.json")
	write(t, file, "one", 0o640)
	if runtime.GOOS == "windows" {
		link = file // which only administrators may make there
	} else if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"two", "three"} {
		edited, err := mcpconfig.Edit(link, 0o600, noon, to(text))
		if err != nil || !edited.Changed || edited.Backup == "" {
			t.Fatalf("%+v, %v", edited, err)
		}
	}
	if edited, err := mcpconfig.Edit(link, 0o600, noon, to("three")); err != nil || edited.Changed || edited.Backup != "" {
		t.Errorf("an edit that changes nothing: %+v, %v", edited, err)
	}
	wantFiles(t, dir, map[string]string{"c.json": "three", "c.json.bak-20270131T120000Z": "one", "c.json.bak-20270131T120000Z-2": "two"})
	if info, err := os.Lstat(file); err != nil || info.Mode().Perm() != 0o640 && runtime.GOOS != "windows" {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || link != file && info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
}

func TestEditOfANewFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	edited, err := mcpconfig.Edit(filepath.Join(dir, "c"), 0o600, noon, to("new"))
	if err != nil || !edited.Changed || edited.Backup != "" {
		t.Errorf("%+v, %v", edited, err)
	}
	wantFiles(t, dir, map[string]string{"c": "new"})
}

// A client that writes its file amid the edit loses nothing: the edit is made again, of that text.
func TestEditAmidAnother(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c")
	write(t, file, "one", 0o600)
	first := true
	_, err := mcpconfig.Edit(file, 0o600, noon, func(text []byte) ([]byte, error) {
		if first {
			first = false
			write(t, file, "two", 0o600)
		}
		return append(text, '!'), nil
	})
	if err != nil {
		t.Error(err)
	}
	wantFiles(t, dir, map[string]string{"c": "two!", "c.bak-20270131T120000Z": "two"})
	n := 0
	_, err = mcpconfig.Edit(file, 0o600, noon, func(text []byte) ([]byte, error) {
		n++
		write(t, file, strings.Repeat("x", n), 0o600)
		return append(text, '!'), nil
	})
	if err == nil || !strings.Contains(err.Error(), "another program goes on changing "+file) {
		t.Error(err)
	}
}

// An edit that fails leaves nothing behind.
func TestEditThatFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c")
	write(t, file, "one", 0o600)
	broken := errors.New("broken")
	if _, err := mcpconfig.Edit(file, 0o600, noon, func([]byte) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	wantFiles(t, dir, map[string]string{"c": "one"})
	if _, err := mcpconfig.Edit(dir, 0o600, noon, to("x")); err == nil {
		t.Error("a directory is edited")
	}
	if runtime.GOOS != "windows" {
		link := filepath.Join(dir, "link")
		if err := os.Symlink(filepath.Join(dir, "none"), link); err != nil {
			t.Fatal(err)
		}
		if _, err := mcpconfig.Edit(link, 0o600, noon, to("x")); err == nil || !strings.Contains(err.Error(), "leads nowhere") {
			t.Error(err)
		}
	}
}
