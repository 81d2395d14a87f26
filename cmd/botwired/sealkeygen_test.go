package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/seal"
)

// keygen makes a file that nobody else can read, and replaces none.
func TestSealKeygen(t *testing.T) {
	newHome(t)
	place := filepath.Join(t.TempDir(), "sub", "keys")
	got := inHome(t, "seal", "keygen", place)
	keys, err := seal.Load(place)
	if err != nil || got.code != cli.ExitOK || !strings.Contains(got.stdout, keys.ID()) || !strings.Contains(got.stdout, "back up") {
		t.Fatalf("%+v, %v", got, err)
	}
	before, _ := os.ReadFile(place)
	wantFailure(t, inHome(t, "seal", "keygen", place), cli.ExitError, place+" exists", "stays as it is")
	if after, _ := os.ReadFile(place); string(after) != string(before) {
		t.Error("the key file was replaced")
	}
	for _, line := range strings.Fields(string(before)) {
		if len(line) == 48 && strings.Contains(got.stdout, line) {
			t.Error("a key is shown")
		}
	}
	wantFailure(t, inHome(t, "seal", "status"), cli.ExitError, "seal.key_file is not set", "keygen")
	wantFailure(t, inHome(t, "seal", "adopt", "agents", "--seal-key-file", place), cli.ExitError, "agents is not sealed", "sealed: true")
}

// A key file that the daemon would not start with is no valid configuration.
func TestValidateReadsTheKeyFile(t *testing.T) {
	newHome(t)
	keys := filepath.Join(t.TempDir(), "keys")
	validate := func() outcome { return inHome(t, "config", "validate", "--seal-key-file", keys) }
	wantFailure(t, validate(), cli.ExitError, "seal.key_file: there is no "+keys)
	if err := os.WriteFile(keys, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, validate(), cli.ExitError, "seal.key_file: "+keys, "no key is in it")
	if err := os.WriteFile(keys, seal.Generate(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := validate(); got.code != cli.ExitOK {
		t.Errorf("%+v", got)
	}
}
