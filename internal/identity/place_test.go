//go:build !windows

package identity_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/identity"
)

// A start reports what happened to its data directory since the last one (contract 19).
func TestStart(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(t *testing.T, d *directory)
		want    identity.Kind
	}{
		"nothing": {func(*testing.T, *directory) {}, identity.Same},
		"writes":  {func(_ *testing.T, d *directory) { d.seq++ }, identity.Same},
		"moved and back": {func(t *testing.T, d *directory) {
			no(t, os.Rename(d.path, d.path+".away"))
			no(t, os.Rename(d.path+".away", d.path))
		}, identity.Same},
		"moved": {func(t *testing.T, d *directory) {
			no(t, os.Rename(d.path, d.path+".there"))
			d.path += ".there"
		}, identity.Same},
		"copied": {func(_ *testing.T, d *directory) {
			d.copyTo(d.path + ".copy")
			d.path += ".copy"
		}, identity.Copied},
		"a copy in its place": {func(t *testing.T, d *directory) {
			d.copyTo(d.path + ".copy")
			no(t, os.Rename(d.path, d.path+".old"))
			no(t, os.Rename(d.path+".copy", d.path))
		}, identity.Copied},
		"another machine": {func(_ *testing.T, d *directory) { d.machine = "other" }, identity.Copied},
		"another boot":    {func(_ *testing.T, d *directory) { d.boot = "later" }, identity.Rebooted},
		"a machine that does not say its ids": {func(_ *testing.T, d *directory) {
			d.machine, d.boot = "", ""
		}, identity.Same},
		"the journal of a backup": {func(t *testing.T, d *directory) {
			no(t, os.Rename(filepath.Join(d.path, "journal"), d.path+".new"))
			no(t, os.MkdirAll(filepath.Join(d.path, "journal"), 0o700))
			no(t, os.Rename(filepath.Join(d.path+".new", "MARK"), filepath.Join(d.path, "journal", "MARK")))
		}, identity.Restored},
		"files of a backup": {func(t *testing.T, d *directory) {
			name := filepath.Join(d.path, "journal", "MARK")
			no(t, os.WriteFile(name+".new", []byte("0"), 0o600))
			no(t, os.Rename(name+".new", name))
		}, identity.Restored},
		"an older journal": {func(_ *testing.T, d *directory) { d.seq = 3 }, identity.Restored},
		"no record": {func(t *testing.T, d *directory) {
			no(t, os.Remove(filepath.Join(d.path, identity.FileName)))
		}, identity.Unknown},
		"a damaged record": {func(t *testing.T, d *directory) {
			no(t, os.WriteFile(filepath.Join(d.path, identity.FileName), []byte(`{"token":`), 0o600))
		}, identity.Unknown},
		"a record of nothing": {func(t *testing.T, d *directory) {
			no(t, os.WriteFile(filepath.Join(d.path, identity.FileName), []byte(`{}`), 0o600))
		}, identity.Unknown},
		"a record that is a folder": {func(t *testing.T, d *directory) {
			no(t, os.Remove(filepath.Join(d.path, identity.FileName)))
			no(t, os.Mkdir(filepath.Join(d.path, identity.FileName), 0o700))
		}, identity.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			d.seq = 7
			d.open().Close(true)
			d.used = true
			c.happens(t, d)
			d.open().wants(t, c.want)
		})
	}
}

// A backup restored over the directory in place, with the same inodes, has its file's stamp but not its
// time of the last change.
func TestBackupInPlace(t *testing.T) {
	d := newDirectory(t)
	d.open().Close(true)
	d.used = true
	long := time.Now().Add(-time.Hour)
	no(t, identity.Restamp(d.path, long))
	d.open().wants(t, identity.Restored)
}
