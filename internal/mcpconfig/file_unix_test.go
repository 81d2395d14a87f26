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
