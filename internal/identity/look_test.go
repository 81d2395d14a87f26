package identity_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/botwired/botwired/internal/identity"
)

// A look finds what a start would, and changes nothing.
func TestLook(t *testing.T) {
	d := newDirectory(t)
	look := func(dir string, want identity.Kind) {
		t.Helper()
		if kind, why := identity.Look(dir, d.options(nil).Files); kind != want || (why == "") != (want == identity.Same || want == identity.New) {
			t.Errorf("%s: %s (%s), not %s", dir, kind, why, want)
		}
	}
	look(d.path, identity.New)
	fenced := 0
	identity.Open(d.options(&fenced)).Close(true)
	record := filepath.Join(d.path, identity.FileName)
	before, err := os.ReadFile(record)
	no(t, err)
	look(d.path, identity.Same)
	d.copyTo(d.path + ".copy")
	look(d.path+".copy", identity.Copied)
	look(d.path, identity.Same)
	if after, err := os.ReadFile(record); err != nil || string(after) != string(before) {
		t.Errorf("a look has changed the record: %v", err)
	}
	no(t, os.WriteFile(record, []byte("{}"), 0o600))
	look(d.path, identity.Unknown)
}
