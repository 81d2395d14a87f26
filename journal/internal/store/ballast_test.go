package store

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The store keeps a ballast in case other programs fill the disk, and removes it in time: while the
// store runs, and before it opens (contract 3).
func TestBallast(t *testing.T) {
	const reserve = 1 << 20
	const size = reserve * 3 / 4
	d := &slowDisk{FS: vfs.Default}
	dir := filepath.Join(t.TempDir(), "s")
	at := func(free int64, reserve int64) *Store {
		t.Helper()
		d.free.Store(free)
		return openStore(t, d, func(o *Options) { o.Dir, o.DiskReserve = dir, reserve })
	}
	expect := func(when string, want bool) {
		t.Helper()
		info, err := vfs.Default.Stat(filepath.Join(dir, BallastFile))
		if (err == nil) != want || want && info.Size() != size {
			t.Errorf("%s, there is a ballast: %t (%v)", when, err == nil, info)
		}
	}
	s := at(10*reserve, reserve)
	expect("before the store is open", false)
	for _, step := range []struct {
		free int64
		want bool
	}{
		{2*reserve - 1, false}, {2 * reserve, true}, {reserve - 1, true}, {reserve / 4, true},
		{reserve/4 - 1, false}, {reserve, false}, {2*reserve - 1, false}, {3 * reserve, true},
	} {
		d.free.Store(step.free)
		s.forget()
		s.Ballast()
		expect("while the store is open", step.want)
	}
	no(t, s.Close())
	no(t, at(reserve/4, reserve).Close())
	expect("after a restart", true)
	no(t, at(reserve/4-1, reserve).Close())
	expect("after a restart on a full disk", false)

	s = at(3*reserve, reserve)
	s.Ballast()
	expect("once there is room", true)
	no(t, s.Close())
	no(t, at(3*reserve, 2*reserve).Close())
	expect("with another reserve", false)
	s = at(3*reserve, 0)
	s.Ballast()
	expect("with no reserve", false)
	no(t, s.Close())
}

// separateDisk has room in the store's directory only.
type separateDisk struct{ slowDisk }

func (d *separateDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.PathDir(name) != "s" {
		return nil, syscall.ENOSPC
	}
	return d.slowDisk.Create(name, category)
}

// The directory of a store may be on another disk than the directory above it, which may be full. The
// ballast is on the store's disk, and so is what tries its room (contract 3).
func TestBallastIsOnTheDiskOfTheLogs(t *testing.T) {
	const reserve = 1 << 20
	d := &separateDisk{slowDisk{FS: vfs.NewMem()}}
	d.free.Store(10 * reserve)
	s := openStore(t, d, func(o *Options) {
		o.DiskReserve, o.AwaitRoom = reserve, func(needed int64) error {
			if needed > 0 {
				t.Fatalf("%d bytes are missing on another disk", needed)
			}
			return nil
		}
	})
	s.Ballast()
	if s.Low(0) || !s.ballast.held {
		t.Errorf("low %t, ballast %t", s.Low(0), s.ballast.held)
	}
	if names, err := d.List(""); err != nil || !slices.Equal(names, []string{"s"}) {
		t.Errorf("beside the store are %v (%v)", names, err)
	}
	no(t, s.Close())
}

// A ballast that does not fit leaves no partial file.
func TestBallastThatDoesNotFit(t *testing.T) {
	d := &slowDisk{FS: vfs.Default}
	d.free.Store(1 << 62)
	dir := filepath.Join(t.TempDir(), "s")
	s := openStore(t, d, func(o *Options) { o.Dir, o.DiskReserve = dir, 1<<61 })
	s.Ballast()
	if _, err := vfs.Default.Stat(filepath.Join(dir, BallastFile)); err == nil || s.ballast.held {
		t.Error("the disk has room for 1.7 exabytes")
	}
}
