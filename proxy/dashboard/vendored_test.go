package dashboard_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const vendored = "assets/vendor"

// Each third-party file is byte for byte of a release that VENDORED names, with its licence beside it.
func TestVendoredFilesAreThoseOfTheirReleases(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(vendored, "VENDORED"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"VENDORED": true}
	licences := make(map[string]bool) // by release
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 4 {
			t.Fatalf("%q: expected a hash, a name, a release and a path", line)
		}
		hash, name, release, path := fields[0], fields[1], fields[2], fields[3]
		content, err := os.ReadFile(filepath.Join(vendored, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(content); hex.EncodeToString(got[:]) != hash {
			t.Errorf("%s is not what %s has as %s: its hash is %x", name, release, path, got)
		}
		listed[name] = true
		licences[release] = licences[release] || path == "LICENSE"
	}
	for release, licence := range licences {
		if !licence {
			t.Errorf("%s has no licence here", release)
		}
	}
	files, err := os.ReadDir(vendored)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !listed[file.Name()] {
			t.Errorf("%s is of no release that VENDORED names", file.Name())
		}
	}
}
