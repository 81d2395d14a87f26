package identity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/identity"
)

// life is a daemon from start to end, as far as its identity goes.
type life struct {
	*identity.Watch
	clocks *identity.Clocks
	fenced int // how often all pending writes had to be compared with upstream
}

// directory is a data directory with a journal in it.
type directory struct {
	t       *testing.T
	path    string
	seq     uint64
	used    bool
	machine string
	boot    string
}

func newDirectory(t *testing.T) *directory {
	t.Helper()
	d := &directory{t: t, path: filepath.Join(t.TempDir(), "data"), machine: "m", boot: "b"}
	no(t, os.MkdirAll(filepath.Join(d.path, "journal"), 0o700))
	no(t, os.WriteFile(filepath.Join(d.path, "journal", "MARK"), []byte("1"), 0o600))
	return d
}

func (d *directory) options(fenced *int) identity.Options {
	return identity.Options{
		Dir: d.path, Files: []string{"journal", filepath.Join("journal", "MARK")},
		Seq: func() uint64 { return d.seq }, Unused: func() (bool, error) { return !d.used, nil },
		InFlight: 10 * time.Second, OnDoubt: func() { *fenced++ }, Logger: discard,
	}
}

func (d *directory) place() identity.Place {
	p := identity.PlaceOf(d.path, "journal", filepath.Join("journal", "MARK"))
	p.Machine, p.Boot = d.machine, d.boot
	return p
}

// open starts a life.
func (d *directory) open() *life {
	l := &life{clocks: &identity.Clocks{Wall: time.Now(), Mono: time.Minute}}
	l.Watch = identity.Open(d.options(&l.fenced).At(d.place, l.clocks))
	return l
}

// copyTo copies the directory as cp -a does, over existing files.
func (d *directory) copyTo(to string) {
	d.t.Helper()
	no(d.t, filepath.WalkDir(d.path, func(path string, e os.DirEntry, err error) error {
		no(d.t, err)
		rel, err := filepath.Rel(d.path, path)
		no(d.t, err)
		name := filepath.Join(to, rel)
		if e.IsDir() {
			return os.MkdirAll(name, 0o700)
		}
		text, err := os.ReadFile(path)
		no(d.t, err)
		no(d.t, os.WriteFile(name, text, 0o600))
		info, err := e.Info()
		no(d.t, err)
		return os.Chtimes(name, info.ModTime(), info.ModTime())
	}))
}

func (l *life) wants(t *testing.T, kind identity.Kind) {
	t.Helper()
	st := l.State()
	careful := kind != identity.Same && kind != identity.New
	if st.Start != kind || (st.Newest != nil) != careful || (l.fenced > 0) != careful {
		t.Errorf("the start is %q (%+v), fenced %d times, want %q", st.Start, st.Newest, l.fenced, kind)
	}
	if got := l.Stands(l.clocks.Wall.Add(-time.Hour)); got == careful {
		t.Errorf("what was confirmed an hour ago stands: %v", got)
	}
	if !l.Stands(l.clocks.Wall.Add(time.Hour + time.Minute)) {
		t.Error("what will be confirmed in an hour does not stand")
	}
}

// A new directory causes no doubt.
func TestFirstStart(t *testing.T) {
	newDirectory(t).open().wants(t, identity.New)
	d := newDirectory(t)
	d.used = true // by an older botwired
	d.open().wants(t, identity.Unknown)
}

// A start's doubt survives a crash: if nothing was sent or asked since, the next start is just as
// careful. Copies confirmed after a doubt stay fresh.
func TestDoubtOutlivesTheProcess(t *testing.T) {
	d := newDirectory(t)
	d.open().Close(true)
	d.used, d.machine = true, "other"
	first := d.open()
	first.wants(t, identity.Copied)
	if st := d.open(); st.fenced == 0 || st.Stands(first.clocks.Wall.Add(-time.Second)) || st.State().Start != identity.Same {
		t.Errorf("after a crash, fenced %d times, %+v", st.fenced, st.State())
	}
	last := d.open()
	last.Close(false)
	if st := d.open(); st.fenced == 0 {
		t.Error("what was pending at the end is not compared with upstream")
	}
	d.open().Close(true)
	st := d.open()
	if st.fenced != 0 || st.Stands(first.clocks.Wall.Add(-time.Second)) || !st.Stands(first.clocks.Wall.Add(time.Second)) {
		t.Errorf("when nothing was pending: fenced %d times", st.fenced)
	}
}

// Copies from a machine whose clock is ahead are not fresh either.
func TestCopyOfAMachineThatIsAhead(t *testing.T) {
	d := newDirectory(t)
	d.open().Close(true)
	d.used, d.machine = true, "other"
	ahead := time.Now().Add(5 * time.Minute)
	no(t, os.Chtimes(filepath.Join(d.path, "journal", "MARK"), ahead, ahead))
	l := d.open()
	if l.Stands(ahead) {
		t.Error("what was confirmed by the clock of another machine stands")
	}
	if !l.Stands(ahead.Add(time.Minute)) {
		t.Error("nothing ever stands again")
	}
}

// A directory that cannot be written is used all the same, and every start is careful.
func TestRecordThatCannotBeWritten(t *testing.T) {
	d := newDirectory(t)
	d.used = true
	no(t, os.MkdirAll(filepath.Join(d.path, identity.FileName+".new", "full"), 0o700))
	d.open().wants(t, identity.Unknown)
	d.open().wants(t, identity.Unknown)
}

// The file does not contain this machine's id.
func TestTheMachinesIDIsNobodysBusiness(t *testing.T) {
	d := newDirectory(t)
	id, known := "", false
	for _, name := range []string{"/var/lib/dbus/machine-id", "/etc/machine-id"} {
		if text, err := os.ReadFile(name); err == nil && len(text) >= 32 {
			id, known = string(text[:32]), true
		}
	}
	fenced := 0
	identity.Open(d.options(&fenced)).Close(true)
	text, err := os.ReadFile(filepath.Join(d.path, identity.FileName))
	no(t, err)
	if known && (!strings.Contains(string(text), "machine") || strings.Contains(string(text), id)) {
		t.Errorf("the file is %s", text)
	}
}

// Another user may have put a link where botwired writes.
func TestAPlantedLinkIsNotFollowed(t *testing.T) {
	name, target := filepath.Join(t.TempDir(), "UPSTREAM"), filepath.Join(t.TempDir(), "target")
	no(t, os.WriteFile(target, []byte("theirs"), 0o600))
	if err := os.Symlink(target, name+".new"); err != nil {
		t.Skip(err) // it needs a privilege on Windows
	}
	no(t, identity.WriteLine(name, "ours"))
	if text, err := os.ReadFile(target); err != nil || string(text) != "theirs" {
		t.Errorf("%q, %v", text, err)
	}
}
