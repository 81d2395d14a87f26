package diskfs

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// After a table from memory found no room, it is retried before tables are merged, and a merge in
// progress frees the room that it has taken (contract 3).
func TestTurnsOnAFullDisk(t *testing.T) {
	const pause = time.Second
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{pause: pause}
		full := func(fromMemory bool) {
			t.Helper()
			if err := turns.note(fromMemory, syscall.ENOSPC); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("the error became %v", err)
			}
		}
		expect := func(fromMemory, may bool, after time.Duration) {
			t.Helper()
			began := time.Now()
			if got := turns.wait(fromMemory); got != may || time.Since(began) != after {
				t.Errorf("from memory %t: may write %t after %v; should be %t after %v", fromMemory, got, time.Since(began), may, after)
			}
		}
		expect(true, true, 0)
		expect(false, true, 0)
		if err := turns.note(true, errors.New("another")); err == nil || IsFull(err) {
			t.Error(err)
		}
		expect(false, true, 0)
		full(false)
		expect(true, true, 0)
		expect(false, true, mergePauses*pause)
		full(true)
		expect(false, false, 0) // it has tables of its own
		expect(true, true, pause)
		expect(false, true, (mergePauses-1)*pause)
		expect(false, true, 0)
	})
}

// Merging leaves the last room on the disk to tables from memory (contract 3).
func TestMergesLeaveTheLastRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mergeable bool
		fs := New(vfs.NewMem(), Options{Pause: time.Second, Mergeable: func() bool { return mergeable }})
		write := func(name string, category vfs.DiskWriteCategory) error {
			f, err := fs.Create(name, category)
			if err != nil {
				return err
			}
			_, err = f.Write([]byte("block"))
			return errors.Join(err, f.Close())
		}
		if err := write("1.sst", "pebble-compaction"); !IsFull(err) {
			t.Errorf("a merge takes the last room (%v)", err)
		}
		if err := write("2.sst", flushCategory); err != nil {
			t.Errorf("a table from memory finds no room: %v", err)
		}
		mergeable = true
		if err := write("3.sst", "pebble-compaction"); err != nil {
			t.Errorf("a merge finds no room: %v", err)
		}
	})
}
