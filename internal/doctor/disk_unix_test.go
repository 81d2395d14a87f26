//go:build unix

package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

func TestDoctorOfTheDisk(t *testing.T) {
	const elsewhere = "export BOTWIRED_DATA_DIR=/var/lib/botwired"
	volume := func(v Volume, err error) func(*examination) {
		return func(e *examination) { e.look = func(string) (Volume, error) { return v, err } }
	}
	for name, c := range map[string]struct {
		breaks func(*examination)
		check  string
		result Result
		remedy string
		part   string
	}{
		"in memory":      {volume(Volume{Type: "tmpfs", Kind: Memory, Free: 1 << 40}, nil), "disk", Failed, elsewhere, "lost at the next start"},
		"on a network":   {volume(Volume{Type: "nfs", Kind: Network, Free: 1 << 40}, nil), "disk", Warning, elsewhere, "nfs"},
		"in a container": {volume(Volume{Type: "overlay", Kind: Layer, Free: 1 << 40}, nil), "disk", Warning, elsewhere, "mount a volume"},
		"full":           {volume(Volume{Kind: Local, Free: 63 << 20}, nil), "disk", Failed, "df -h <dir>", "63.0MiB free, and botwired refuses writes below journal.disk_reserve, 64.0MiB"},
		"nearly full":    {volume(Volume{Kind: Local, Free: 255 << 20}, nil), "disk", Warning, "df -h <dir>", "255.0MiB"},
		"unsupported":    {volume(Volume{}, errors.ErrUnsupported), "disk", NotApplicable, "", ""},
		"not to be seen": {volume(Volume{}, syscall.EACCES), "disk", Warning, "df -h <dir>", "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newPatient(t, nil)
			c.breaks(e)
			dir := e.loaded.Config.DataDir
			wantFinding(t, examine(t, e), c.check, c.result, inDir(c.remedy, dir), inDir(c.part, dir))
		})
	}
}

// A journal's folder may be a link to another disk: that is the one that counts.
func TestDoctorOfALinkedJournal(t *testing.T) {
	for _, running := range []bool{false, true} {
		e := newPatient(t, nil)
		if running {
			e = withDaemon(t)
		}
		other, err := filepath.EvalSymlinks(t.TempDir())
		no(t, err)
		no(t, os.Symlink(other, filepath.Join(e.loaded.Config.DataDir, "journal")))
		good := e.look
		e.look = func(dir string) (Volume, error) {
			if dir == other {
				return Volume{Type: "tmpfs", Kind: Memory, Free: 1 << 40}, nil
			}
			return good(dir)
		}
		wantFinding(t, examine(t, e), "disk", Failed, "export BOTWIRED_DATA_DIR=/var/lib/botwired", other+" is in memory")
	}
}

func TestDoctorOfTheDataDirectory(t *testing.T) {
	const another = "export BOTWIRED_DATA_DIR=/another/directory"
	for name, c := range map[string]struct {
		breaks func(t *testing.T, dir string)
		check  string
		result Result
		remedy string
		part   string
	}{
		"open to others": {func(t *testing.T, dir string) { no(t, os.Chmod(dir, 0o755)) },
			"data directory", Warning, "chmod -R go= <dir>", "<dir> has mode 0755"},
		"a file": {func(t *testing.T, dir string) {
			no(t, os.Remove(dir))
			no(t, os.WriteFile(dir, nil, 0o600))
		}, "data directory", Failed, another, "is no directory"},
		"below a file": {func(t *testing.T, dir string) {
			above := filepath.Dir(dir)
			no(t, os.Remove(dir))
			no(t, os.Remove(above))
			no(t, os.WriteFile(above, nil, 0o600))
		}, "data directory", Failed, another, "is not a directory"},
		"not there": {func(t *testing.T, dir string) { no(t, os.Remove(dir)) },
			"data directory", OK, "", "serve makes it"},
		"a sound journal": {func(t *testing.T, dir string) { makeJournal(t, dir) },
			"data directory", OK, "", "<dir>"},
		"a corrupt journal": {func(t *testing.T, dir string) {
			makeJournal(t, dir)
			no(t, os.Truncate(filepath.Join(dir, "journal", "MARK"), 3))
			no(t, os.Chmod(dir, 0o755)) // the worse of both counts
		}, "data directory", Failed, "botwired recover --data-dir <dir>", "journal corrupt"},
		"another format": {func(t *testing.T, dir string) {
			makeJournal(t, dir)
			no(t, os.WriteFile(filepath.Join(dir, "journal", "FORMAT"), []byte("botwired journal 99\n"), 0o600))
		}, "data directory", Failed, "", "use the newer version of botwired that wrote it"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newPatient(t, nil)
			dir := e.loaded.Config.DataDir
			c.breaks(t, dir)
			wantFinding(t, examine(t, e), c.check, c.result, inDir(c.remedy, dir), inDir(c.part, dir))
		})
	}
}

func TestDoctorOfTheTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	no(t, os.WriteFile(file, []byte("s3cret"), 0o600))
	e := newPatient(t, map[string]string{"auth.token_file": file})
	wantFinding(t, examine(t, e), "token file", OK, "")
	no(t, os.Chmod(file, 0o644))
	e = newPatient(t, map[string]string{"auth.token_file": file})
	wantFinding(t, examine(t, e), "token file", Warning, "chmod 600 "+file, "0644")
}

// inDir inserts a directory into a text.
func inDir(text, dir string) string { return strings.ReplaceAll(text, "<dir>", dir) }

// A daemon that does not answer uses the address, so the remedy is not another address.
func TestDoctorLooksForADaemonThatHangs(t *testing.T) {
	e := newPatient(t, nil)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if f := e.daemon(ctx); f.Result != Failed || !strings.HasPrefix(f.Remedy, "ps ") || !strings.Contains(f.Text, "no answer came in time") {
		t.Errorf("%+v", f)
	}
}

func makeJournal(t *testing.T, dir string) {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal")})
	no(t, err)
	no(t, j.Close())
}
