package journal_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// maintain runs Maintain for a while of virtual time.
func maintain(t *testing.T, j *journal.Journal, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	no(t, j.Maintain(ctx))
}

// size returns the total size of a directory's files.
func size(t *testing.T, fs vfs.FS) (bytes int64) {
	t.Helper()
	names, err := fs.List(dir)
	no(t, err)
	for _, name := range names {
		if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil && strings.HasSuffix(name, ".sst") {
			bytes += info.Size()
		}
	}
	return bytes
}

// noise returns text that does not compress.
func noise(n int) string {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = ' ' + byte(rng.IntN(95))
	}
	return string(b)
}

// reserve is DiskReserve for manyWrites' journal.
const reserve = 1 << 20

// manyWrites opens a journal with n pending writes of 100 KiB, on a disk with room.
func manyWrites(t *testing.T, n int) (d *disk, j *journal.Journal, writes []journal.Write) {
	t.Helper()
	d = &disk{FS: vfs.NewMem()}
	d.free.Store(1 << 30)
	j = open(t, d, func(o *journal.Options) { o.DiskReserve, o.HistoryBytes = reserve, 1<<20 })
	value := noise(100 << 10)
	for i := range n {
		writes = append(writes, put(t, j, key("%d", i), fmt.Sprint(i)+value))
	}
	return d, j, writes
}

// The space of writes that were dead-lettered and discarded is freed.
func TestDrainedJournalShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, j, writes := manyWrites(t, 100)
		// The following changes stay in memory, and the tables stay unchanged.
		for _, w := range writes {
			no(t, j.DeadLetter(w, journal.Failure{Status: 400, Reason: "no"}))
			no(t, j.Discard(w.Seq))
		}
		maintain(t, j, time.Minute)
		if after := size(t, d); after > 4<<20 {
			t.Errorf("%d bytes are left", after)
		}
	})
}

// An idle journal that has room for many records in memory writes nothing to the disk.
func TestIdleJournalWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int64
		j := open(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				changes.Add(1)
			}
			return nil
		})))
		value := noise(100 << 10)
		for i := range 200 {
			no(t, j.Settle(put(t, j, key("k"), fmt.Sprint(i)+value)))
		}
		maintain(t, j, time.Minute)
		before := changes.Load()
		maintain(t, j, 10*time.Minute)
		if n := changes.Load() - before; before == 0 || n > 0 {
			t.Errorf("the journal changed files %d times, and %d times in ten minutes in which nothing happened", before, n)
		}
	})
}

// contract 3: writes that were still pending when the disk became full free their space as soon as they are
// drained, even without a new write.
func TestFullDiskGivesBackWhatIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, j, writes := manyWrites(t, 200)
		d.free.Store(reserve - 1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error)
		go func() { ended <- j.Maintain(ctx) }()
		time.Sleep(50 * time.Second) // a pass has found little to give up, and the next has to wait
		for _, w := range writes {
			no(t, j.Settle(w))
		}
		time.Sleep(3 * time.Second)
		stop()
		no(t, <-ended)
		if after := size(t, d); after > 8<<20 {
			t.Errorf("%d bytes are left", after)
		}
	})
}

// contract 3: while the disk is nearly full, settled copies are removed to make room for writes.
func TestFullDiskGivesUpCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, j, writes := manyWrites(t, 200)
		for _, w := range writes {
			no(t, j.Settle(w))
		}
		put(t, j, key("waiting"), "1")
		d.free.Store(reserve - 1)
		maintain(t, j, time.Minute)
		if state, err := j.Lookup(key("7")); err != nil || state.Kind != journal.Unknown {
			t.Errorf("a copy is of kind %v (%v)", state.Kind, err)
		}
		expect(t, j, key("waiting"), journal.Value, "1")
		if after := size(t, d); after > 8<<20 {
			t.Errorf("%d bytes are left", after)
		}
		no(t, j.MaySend()) // flushing goes on
		d.free.Store(10)
		time.Sleep(time.Second)
		if err := j.MaySend(); err == nil {
			t.Error("an attempt was begun that the disk has no room to record")
		}
	})
}

// contract 3: on a nearly full disk the copies give way also during an outage. Many writes are pending
// then, whose values may take much less on the disk than they count.
func TestFullDiskGivesUpCopiesDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, j, writes := manyWrites(t, 100)
		for _, w := range writes {
			no(t, j.Settle(w))
		}
		for i := range 300 {
			put(t, j, key("waiting%d", i), strings.Repeat("x", 100<<10))
		}
		d.free.Store(reserve - 1)
		maintain(t, j, time.Minute)
		if state, err := j.Lookup(key("7")); err != nil || state.Kind != journal.Unknown {
			t.Errorf("a copy is of kind %v (%v)", state.Kind, err)
		}
		if after := size(t, d); after > 4<<20 {
			t.Errorf("%d bytes are left", after)
		}
		check(t, j)
	})
}

// A nearly full disk with nothing to give up is no reason to say otherwise every second.
func TestFullDiskWithNothingToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := &disk{FS: vfs.NewMem()}
		d.free.Store(1 << 30)
		j := open(t, d, func(o *journal.Options) {
			o.DiskReserve, o.HistoryBytes = reserve, 1<<20
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		})
		for range 3 { // the first two are superseded
			for i := range 50 {
				put(t, j, key("waiting%d", i), noise(100<<10))
			}
		}
		d.free.Store(reserve - 1)
		maintain(t, j, time.Minute)
		if n := bytes.Count(log.Bytes(), []byte("given up")); n != 1 {
			t.Errorf("%d lines:\n%s", n, log.Bytes())
		}
	})
}
