package config_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/botwired/botwired/config"
)

// A passed socket sets the listen address, which is checked like any other.
func TestSocketIsASource(t *testing.T) {
	socket := config.Socket{Address: "127.0.0.1:2700", Name: "botwired.socket"}
	loaded := load(t, config.Sources{Socket: socket})
	if got := loaded.Config.Listen + " of " + loaded.Source("listen").String(); got != "127.0.0.1:2700 of socket botwired.socket" {
		t.Errorf("listen is %s", got)
	}
	explicit := load(t, config.Sources{Socket: socket, Flags: map[string]string{"listen": "127.0.0.1:2701"}})
	if got := explicit.Config.Listen + " of " + explicit.Source("listen").String(); got != "127.0.0.1:2701 of flag --listen" {
		t.Errorf("listen is %s", got)
	}
	socket.Address = "0.0.0.0:2700"
	if _, err := config.Load(config.Sources{Socket: socket}); err == nil {
		t.Error("a socket off loopback needs no token")
	}
}

// systemd shows the mask of an access control list as the group's rights: other users cannot read a
// unit's credential.
func TestACredentialIsNobodyElses(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "token")
	if err := os.WriteFile(name, []byte(secret), 0o440); err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{"auth.token_file": name}
	if got := load(t, config.Sources{Flags: flags}).Warnings; len(got) != 1 && runtime.GOOS != "windows" {
		t.Errorf("warnings about any other file: %q", got)
	}
	environ := []string{"CREDENTIALS_DIRECTORY=" + dir}
	running := load(t, config.Sources{Flags: flags, Environ: environ})
	reloaded, err := config.Reload(running, load(t, config.Sources{Flags: flags, Environ: environ}))
	if err != nil || len(running.Warnings)+len(reloaded.Loaded.Warnings) > 0 {
		t.Errorf("warnings about a credential: %q, %v", running.Warnings, err)
	}
}
