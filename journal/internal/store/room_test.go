package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

// A store is not opened if its log does not fit as tables. The caller learns how much room that needs,
// may give up, and continues as soon as there is room (contract 3).
func TestRoomToOpen(t *testing.T) {
	const reserve, size, writes = 64 << 10, 60_000, 80
	d := &slowDisk{FS: vfs.NewCrashableMem()}
	d.free.Store(1 << 40)
	s := openStore(t, d, func(o *Options) { o.DiskReserve = reserve })
	for i := range writes {
		no(t, s.Update(put(fmt.Sprint(i), strings.Repeat("v", size))))
	}
	crashed := &slowDisk{FS: d.FS.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{})}
	no(t, s.Close())
	before := listing(t, crashed)

	const least = size * writes // minimum size of the table
	crashed.free.Store(least - 1)
	given := errors.New("given up")
	var asked []int64
	opts := Options{
		Dir: "s", FS: crashed, Readers: new(sync.Mutex), Logger: slog.New(slog.DiscardHandler), DiskReserve: reserve,
		AwaitRoom: func(needed int64) error { asked = append(asked, needed); return given },
	}
	if _, err := Open(opts); !errors.Is(err, given) {
		t.Fatalf("the error is %v", err)
	}
	if len(asked) != 1 || asked[0] < least || asked[0] > 2*least {
		t.Errorf("to open a log of %d bytes, it asked for %d bytes", least, asked)
	}
	if after := listing(t, crashed); after != before {
		t.Errorf("the store was changed:\n%s\n%s", before, after)
	}

	asked = nil
	opts.AwaitRoom = func(needed int64) error {
		if asked = append(asked, needed); needed > 0 {
			crashed.free.Store(needed)
		}
		return nil
	}
	var err error
	opts.Lock, err = LockDir(crashed, "s")
	no(t, err)
	s, err = Open(opts)
	no(t, err)
	defer func() { no(t, s.Close()) }()
	if len(asked) != 2 || asked[1] != 0 {
		t.Errorf("it asked for %d bytes, want a number of them and then none", asked)
	}
	if totals, err := ReadTotals(s.DB()); err != nil || totals.Pending != writes {
		t.Errorf("%d writes are there (%v), want %d", totals.Pending, err, writes)
	}
}

// A store is not begun on a full disk either: what needs room waits for it (contract 3).
func TestRoomToCreate(t *testing.T) {
	d := &slowDisk{FS: vfs.NewCrashableMem()}
	asked := 0
	no(t, openStore(t, d, func(o *Options) {
		o.AwaitRoom = func(needed int64) error {
			if needed > 0 {
				asked++
				if names := listing(t, d); names != "LOCK 0" {
					t.Errorf("it asks for room with %q in the directory", names)
				}
				d.free.Store(2 * needed)
			}
			return nil
		}
	}).Close())
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

// limitedDisk has a quota that its free space does not show: while it is full, no file with a name that ends in
// suffix can be made.
type limitedDisk struct {
	slowDisk
	suffix string
	full   atomic.Bool
}

func (d *limitedDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.full.Load() && strings.HasSuffix(name, d.suffix) {
		return nil, syscall.EDQUOT
	}
	return d.slowDisk.Create(name, category)
}

// A store that opens under a used-up quota waits for room, even if the system reports free space. It tries the disk of
// the logs (contract 3).
func TestRoomToOpenUnderAQuota(t *testing.T) {
	d := &limitedDisk{slowDisk: slowDisk{FS: vfs.Default}, suffix: filepath.Join("s", trialFile)}
	dir := filepath.Join(t.TempDir(), "s")
	d.free.Store(1 << 40)
	var asked []int64
	at := func(o *Options) {
		o.Dir = dir
		o.AwaitRoom = func(needed int64) error {
			if asked = append(asked, needed); len(asked) == 2 {
				d.full.Store(false)
			}
			return nil
		}
	}
	no(t, openStore(t, d, at).Close())
	d.full.Store(true)
	asked = nil
	no(t, openStore(t, d, at).Close())
	if len(asked) != 3 || asked[0] <= 0 || asked[1] <= 0 || asked[2] != 0 {
		t.Errorf("it asked for %d bytes, want twice a number of them and then none", asked)
	}
	if _, err := d.Stat(filepath.Join(dir, trialFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what tried the room: %v", err)
	}
}

// What a trial or an earlier version has left is removed before the store looks for room (contract 3).
func TestLeftoversAreRemoved(t *testing.T) {
	d := &slowDisk{FS: vfs.NewMem()}
	d.free.Store(1 << 40)
	no(t, openStore(t, d).Close())
	for _, name := range []string{"BALLAST", "BALLAST.new", "ROOM"} {
		no(t, diskfs.WriteFile(d, d.PathJoin("s", name), []byte("room")))
	}
	no(t, openStore(t, d, func(o *Options) {
		o.AwaitRoom = func(int64) error {
			if left := listing(t, d); strings.Contains(left, "BALLAST") || strings.Contains(left, "ROOM") {
				t.Errorf("there are %s", left)
			}
			return nil
		}
	}).Close())
}

// While a table from memory finds no room, the disk counts as full, even if the system reports free space: callers and
// the flusher write nothing, and the store begins no other log. Once Pebble has written the table, they go on
// (contract 3).
func TestTableWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &limitedDisk{slowDisk: slowDisk{FS: vfs.NewMem()}, suffix: ".sst"}
		d.free.Store(1 << 40)
		s := openStore(t, d, func(o *Options) { o.DiskReserve, o.FullDiskPause = 1<<20, diskfs.FullDiskPause })
		flush := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return s.Flush(ctx)
		}
		expect := func(when string, full bool) {
			t.Helper()
			s.Look()
			if low, pressure, critical := s.Low(0), s.Pressure(), s.Critical(); low != full || pressure != full || critical != full {
				t.Errorf("%s: low %t, pressure %t, critical %t", when, low, pressure, critical)
			}
		}
		no(t, s.Update(put("k", "v")))
		expect("with room", false)
		d.full.Store(true)
		if err := flush(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a flush without room: %v", err)
		}
		expect("a table finds no room", true)
		before := listing(t, d)
		for range 100 {
			if err := flush(); !diskfs.IsFull(err) {
				t.Fatalf("another flush: %v", err)
			}
			if err := s.Compact(t.Context(), record.PendingPrefix); !diskfs.IsFull(err) {
				t.Fatalf("a merge: %v", err)
			}
		}
		if after := listing(t, d); after != before {
			t.Errorf("the store was changed:\n%s\n%s", before, after)
		}
		no(t, s.Update(put("k", "w"))) // what must be recorded still can
		d.full.Store(false)
		time.Sleep(diskfs.FullDiskPause)
		synctest.Wait()
		expect("the table is written", false)
		no(t, flush())
		no(t, s.Close())
	})
}

func listing(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	names, err := fsys.List("s")
	no(t, err)
	var out []string
	for _, name := range names {
		info, err := fsys.Stat(fsys.PathJoin("s", name))
		no(t, err)
		out = append(out, fmt.Sprint(name, " ", info.Size()))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
