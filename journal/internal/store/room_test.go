package store

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
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

// The store removes its ballast to make room before it calls AwaitRoom with missing bytes.
func TestBallastMakesRoomToOpen(t *testing.T) {
	const reserve = 1 << 20
	d := &slowDisk{FS: vfs.Default}
	dir := filepath.Join(t.TempDir(), "s")
	d.free.Store(3 * reserve)
	s := openStore(t, d, func(o *Options) { o.Dir, o.DiskReserve = dir, reserve })
	s.Ballast()
	no(t, s.Close())
	d.free.Store(reserve / 2) // above the critical level
	asked := 0
	no(t, openStore(t, d, func(o *Options) {
		o.Dir, o.DiskReserve = dir, reserve
		o.AwaitRoom = func(needed int64) error {
			if needed == 0 {
				return nil
			}
			if _, err := vfs.Default.Stat(filepath.Join(dir, BallastFile)); err == nil {
				t.Error("the ballast is still there")
			}
			asked++
			d.free.Store(2 * reserve)
			return nil
		}
	}).Close())
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func listing(t *testing.T, fs vfs.FS) string {
	t.Helper()
	names, err := fs.List("s")
	no(t, err)
	var out []string
	for _, name := range names {
		info, err := fs.Stat(fs.PathJoin("s", name))
		no(t, err)
		out = append(out, fmt.Sprint(name, " ", info.Size()))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
