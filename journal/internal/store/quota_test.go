package store

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// limitedDisk has a quota that its free space does not show: a new file whose name ends in full finds no
// room, and none does if full is empty.
type limitedDisk struct {
	slowDisk
	full    atomic.Pointer[string]
	failing atomic.Bool // a ballast cannot be created at all
}

func (d *limitedDisk) refuse(suffix string) { d.full.Store(&suffix) }

func (d *limitedDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.failing.Load() && strings.Contains(name, BallastFile) {
		return nil, syscall.EACCES
	}
	if full := d.full.Load(); full != nil && strings.Contains(name, BallastFile) && strings.HasSuffix(name, *full) {
		return nil, syscall.EDQUOT
	}
	return d.slowDisk.Create(name, category)
}

// A quota that is used up acts like a full disk, though the system reports room. It gives room again
// when something is freed, and when it is raised (contract 3).
func TestQuotaThatTheSystemDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reserve = 1 << 20
		d := &limitedDisk{slowDisk: slowDisk{FS: vfs.NewMem()}}
		d.free.Store(10 * reserve)
		s := openStore(t, d, func(o *Options) { o.DiskReserve = reserve })
		expect := func(when string, held, low, critical bool, free int64) {
			t.Helper()
			time.Sleep(gaugeFresh)
			s.Look()
			_, reported, err := Space(s)
			if err != nil || s.ballast.held != held || s.Low(0) != low || s.Pressure() != low || s.Critical() != critical || reported != free {
				t.Errorf("%s: ballast %t, low %t, pressure %t, critical %t, %d bytes free (%v)", when, s.ballast.held, s.Low(0), s.Pressure(), s.Critical(), reported, err)
			}
		}
		s.Ballast()
		expect("with room", true, false, false, 10*reserve)
		s.noRoom(false)
		expect("a table finds no room", true, true, true, 0)
		d.free.Add(reserve / 2)
		expect("a merge is given up", true, true, false, reserve/2)
		s.noRoom(true)
		expect("a log finds no room", false, true, true, 0)
		d.free.Add(reserve * 3 / 4)
		expect("the log has the ballast's room", false, true, false, reserve*3/4)

		d.refuse("")
		time.Sleep(quotaPause)
		s.Ballast()
		expect("nothing fits", false, true, true, 0)
		d.refuse(BallastFile)
		time.Sleep(quotaPause)
		s.Ballast()
		expect("some room, and none for the ballast", false, true, false, reserve/4)
		d.full.Store(nil)
		s.Ballast()
		expect("the quota was just raised", false, true, false, reserve/4)
		time.Sleep(quotaPause)
		s.Ballast()
		expect("the raised quota is noticed", true, false, false, d.free.Load())

		s.noRoom(true)
		d.free.Add(3 * reserve)
		expect("much was freed", false, true, false, 3*reserve)
		s.Ballast()
		expect("the freed room is noticed", true, false, false, 3*reserve)
		d.free.Add(-5 * reserve / 2)
		expect("others take room, and the quota is raised", true, true, false, reserve/2)
		time.Sleep(quotaPause)
		s.Ballast()
		expect("the raised quota is noticed later, too", true, false, false, d.free.Load())
		s.noRoom(false)
		d.free.Add(reserve)
		time.Sleep(quotaPause)
		s.Ballast()
		expect("the raised quota is noticed beside the ballast", true, false, false, d.free.Load())

		s.noRoom(true)
		d.failing.Store(true)
		time.Sleep(quotaPause)
		s.Ballast()
		expect("no ballast can be made, and not for lack of room", false, false, false, d.free.Load())
	})
}

// A disk that is full for everybody reports that itself, and is believed at once when it has room.
func TestFullDiskIsNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reserve = 1 << 20
		d := &slowDisk{FS: vfs.NewMem()}
		for free, refused := range map[int64]int64{reserve: reserve - 1, 0: 0} {
			s := openStore(t, d, func(o *Options) { o.DiskReserve = free })
			d.free.Store(refused)
			s.noRoom(false)
			d.free.Store(free)
			time.Sleep(gaugeFresh)
			s.Look()
			if s.Low(0) {
				t.Errorf("with a reserve of %d bytes, the disk has no room", free)
			}
			no(t, s.Close())
		}
	})
}

// A store that is opened under a quota without room gives up its ballast, and then waits (contract 3).
func TestRoomToOpenUnderAQuota(t *testing.T) {
	const reserve = 1 << 20
	d := &limitedDisk{slowDisk: slowDisk{FS: vfs.Default}}
	dir := t.TempDir() + "/s"
	d.free.Store(10 * reserve)
	s := openStore(t, d, func(o *Options) { o.Dir, o.DiskReserve = dir, reserve })
	s.Ballast()
	no(t, s.Close())
	d.refuse("")
	var asked []int64
	no(t, openStore(t, d, func(o *Options) {
		o.Dir, o.DiskReserve = dir, reserve
		o.AwaitRoom = func(needed int64) error {
			if asked = append(asked, needed); len(asked) == 2 {
				d.full.Store(nil)
			}
			if left, err := filepath.Glob(filepath.Join(dir, BallastFile+"*")); err != nil || len(left) > 0 {
				t.Errorf("there are %v (%v)", left, err)
			}
			return nil
		}
	}).Close())
	if len(asked) != 3 || asked[0] <= 0 || asked[1] <= 0 || asked[2] != 0 {
		t.Errorf("it asked for %d bytes, want twice a number of them and then none", asked)
	}
}
