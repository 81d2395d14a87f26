//go:build linux

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/botwired/botwired/config"
)

// A file may be a pipe, such as a shell's <(command). When a reload reads it again, it has no writer:
// the reload neither waits nor reads it as empty.
func TestPipes(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = w.WriteString("flush: {linger: 7s}\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if got := load(t, config.Sources{File: name}).Config.Linger.String(); got != "7s" {
		t.Errorf("flush.linger = %s", got)
	}
	named := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(named, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, source := range []config.Sources{{File: name}, {File: named}, {Flags: map[string]string{"auth.token_file": named}}} {
		wantAll(t, refused(t, source), "a readable file", "writes to it")
	}
}
