//go:build unix

package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/doctor"
)

func TestDoctorOfTheDisk(t *testing.T) {
	const elsewhere = "export BOTWIRED_DATA_DIR=/var/lib/botwired"
	volume := func(v doctor.Volume, err error) func(*examination) {
		return func(e *examination) { e.look = func(string) (doctor.Volume, error) { return v, err } }
	}
	syncs := func(err error, took ...time.Duration) func(*examination) {
		return func(e *examination) {
			e.syncs = func(context.Context, string) ([]time.Duration, error) { return took, err }
		}
	}
	for name, c := range map[string]struct {
		breaks func(*examination)
		check  string
		result doctor.Result
		remedy string
		part   string
	}{
		"in memory":       {volume(doctor.Volume{Type: "tmpfs", Kind: doctor.Memory, Free: 1 << 40}, nil), "file system", doctor.Failed, elsewhere, "lost at the next start"},
		"on a network":    {volume(doctor.Volume{Type: "nfs", Kind: doctor.Network, Free: 1 << 40}, nil), "file system", doctor.Warning, elsewhere, "nfs"},
		"in a container":  {volume(doctor.Volume{Type: "overlay", Kind: doctor.Layer, Free: 1 << 40}, nil), "file system", doctor.Warning, elsewhere, "mount a volume"},
		"full":            {volume(doctor.Volume{Kind: doctor.Local, Free: 63 << 20}, nil), "free space", doctor.Failed, "df -h <dir>", "63.0MiB, and botwired refuses writes below journal.disk_reserve, 64.0MiB"},
		"nearly full":     {volume(doctor.Volume{Kind: doctor.Local, Free: 255 << 20}, nil), "free space", doctor.Warning, "df -h <dir>", "255.0MiB"},
		"unsupported":     {volume(doctor.Volume{}, errors.ErrUnsupported), "free space", doctor.NotApplicable, "", ""},
		"not to be seen":  {volume(doctor.Volume{}, syscall.EACCES), "free space", doctor.Warning, "df -h <dir>", "permission denied"},
		"slow":            {syncs(nil, time.Millisecond, 51*time.Millisecond), "fsync", doctor.Warning, elsewhere, "p99 51ms"},
		"failing":         {syncs(syscall.EIO), "fsync", doctor.Failed, "dmesg | tail", "input/output error"},
		"fast":            {syncs(nil, time.Millisecond), "fsync", doctor.OK, "", "p99 1ms, p50 1ms of 1 in <dir>"},
		"not to write":    {syncs(&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}), "fsync", doctor.NotApplicable, "", ""},
		"few descriptors": {func(e *examination) { e.openFiles = func() uint64 { return 256 } }, "open files", doctor.Warning, "ulimit -n 1024", "this shell allows 256"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newPatient(t, nil)
			c.breaks(e)
			dir := e.loaded.Config.DataDir
			wantFinding(t, examine(t, e), c.check, c.result, inDir(c.remedy, dir), inDir(c.part, dir))
		})
	}
}

func TestDoctorOfTheDataDirectory(t *testing.T) {
	const another = "export BOTWIRED_DATA_DIR=/another/directory"
	for name, c := range map[string]struct {
		breaks func(t *testing.T, dir string)
		check  string
		result doctor.Result
		remedy string
		part   string
	}{
		"open to others": {func(t *testing.T, dir string) { no(t, os.Chmod(dir, 0o755)) },
			"data directory", doctor.Warning, "chmod -R go= <dir>", "<dir> has mode 0755"},
		"a file that others may write": {func(t *testing.T, dir string) {
			name := filepath.Join(dir, journalDir)
			no(t, os.Mkdir(name, 0o700))
			no(t, os.WriteFile(filepath.Join(name, "MARK"), nil, 0o600))
			no(t, os.Chmod(filepath.Join(name, "MARK"), 0o666))
		}, "data directory", doctor.Warning, "chmod -R go= <dir>", "MARK has mode 0666"},
		"a file": {func(t *testing.T, dir string) {
			no(t, os.Remove(dir))
			no(t, os.WriteFile(dir, nil, 0o600))
		}, "data directory", doctor.Failed, another, "is a file"},
		"below a file": {func(t *testing.T, dir string) {
			above := filepath.Dir(dir)
			no(t, os.Remove(dir))
			no(t, os.Remove(above))
			no(t, os.WriteFile(above, nil, 0o600))
		}, "data directory", doctor.Failed, another, "is not a directory"},
		"not there": {func(t *testing.T, dir string) { no(t, os.Remove(dir)) },
			"data directory", doctor.OK, "", "serve makes it"},
		"of another upstream": {func(t *testing.T, dir string) {
			no(t, os.WriteFile(filepath.Join(dir, upstreamFile), []byte("https://botwire.dev\n"), 0o600))
		}, "data's upstream", doctor.Failed, "botwired recover --data-dir <dir> --upstream-url embedded --moved-from https://botwire.dev", "belongs to https://botwire.dev"},
		"of nobody knows which": {func(t *testing.T, dir string) {
			no(t, os.WriteFile(filepath.Join(dir, upstreamFile), []byte("?\n"), 0o600))
		}, "data's upstream", doctor.Failed, "echo embedded > <dir>/UPSTREAM", "names no upstream"},
		"with a damaged identity": {func(t *testing.T, dir string) {
			no(t, os.WriteFile(filepath.Join(dir, "journal.identity"), []byte("{"), 0o600))
		}, "identity", doctor.Warning, "botwired status", "nobody knows"},
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
	wantFinding(t, examine(t, e), "token file", doctor.OK, "")
	no(t, os.Chmod(file, 0o644))
	e = newPatient(t, map[string]string{"auth.token_file": file})
	wantFinding(t, examine(t, e), "token file", doctor.Warning, "chmod 600 "+file, "0644")
}

// An address that the daemon cannot have is found, whether or not somebody answers there.
func TestDoctorOfTheAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	no(t, err)
	defer listener.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	e := newPatient(t, map[string]string{"listen": listener.Addr().String()})
	all := examine(t, e)
	wantFinding(t, all, "daemon", doctor.Failed, "export BOTWIRED_LISTEN="+e.otherAddress(), "closed before the answer came")
	wantFinding(t, all, "address", doctor.NotApplicable, "")
	listener.Close()
	<-served
	const elsewhere = "192.0.2.1:2689" // of nobody (RFC 5737)
	e = newPatient(t, map[string]string{"listen": elsewhere, "auth.token_file": tokenIn(t)})
	e.ask = func(context.Context) (*examinedStatus, error) { return nil, syscall.ECONNREFUSED }
	wantFinding(t, []doctor.Finding{e.address(t.Context())}, "address", doctor.Failed, "export BOTWIRED_LISTEN=127.0.0.1:2700", "does not have that address")
}

func tokenIn(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "token")
	no(t, os.WriteFile(file, []byte("s3cret"), 0o600))
	return file
}

// inDir puts a directory into a text.
func inDir(text, dir string) string { return strings.ReplaceAll(text, "<dir>", dir) }

// After a trial on the embedded upstream, nobody is told that botwire.dev is the same service.
func TestDoctorKnowsATrialsDirectory(t *testing.T) {
	e := newPatient(t, nil)
	c := e.loaded.Config
	no(t, os.WriteFile(filepath.Join(c.DataDir, upstreamFile), []byte("embedded\n"), 0o600))
	c.Upstream.URL = "https://botwire.dev"
	f := e.boundUpstream(t.Context(), &c)
	if f.Result != doctor.Failed || f.Remedy != "export BOTWIRED_DATA_DIR=/another/directory" || !strings.Contains(f.Text, "inside the daemon") {
		t.Errorf("%+v", f)
	}
}

// A daemon that does not answer has the address: another address for it is no remedy.
func TestDoctorLooksForADaemonThatHangs(t *testing.T) {
	e := newPatient(t, nil)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if f := e.daemon(ctx); f.Result != doctor.Failed || !strings.HasPrefix(f.Remedy, "ps ") || !strings.Contains(f.Text, "no answer came in time") {
		t.Errorf("%+v", f)
	}
}
