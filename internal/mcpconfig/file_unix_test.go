//go:build unix

package mcpconfig_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/mcpconfig"
)

// A pipe in the file's place is refused. To open it would wait for ever.
func TestReadOfAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "c.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := mcpconfig.Read(pipe)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for a writer")
	}
}

// A file in the place of the directory is called neither a link nor a client's file.
func TestEditBelowAFile(t *testing.T) {
	inTheWay := filepath.Join(t.TempDir(), "c")
	write(t, inTheWay, "", 0o600)
	_, err := mcpconfig.Edit(filepath.Join(inTheWay, "c.json"), 0o600, noon, to("x"))
	if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
}
