package journal_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

func write(j *journal.Journal, id journal.ID, size int) error {
	return second(j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: strings.Repeat("x", size)}))
}

// one is the number of bytes that the budget counts for a write of 100 bytes to an entry of these
// tests. written is the disk space that the write is assumed to need.
const (
	one     = journal.EntryMemory + len("ns") + len("a") + 100
	written = 64 + len("ns") + len("a") + 100
)

func budget(n int) func(*journal.Options) {
	return func(o *journal.Options) { o.MaxBytes = int64(n) }
}

// contract 3
func TestFullJournalRefusesAndRecovers(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs, budget(2*one))
	a, b, c := key("a"), key("b"), key("c")
	no(t, write(j, a, 100))
	no(t, write(j, b, 100))
	full := func(err error) {
		t.Helper()
		if !errors.Is(err, journal.ErrFull) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error is %v", err)
		}
	}
	full(write(j, c, 100))
	full(write(j, a, 101))
	full(j.Err())
	no(t, write(j, a, 100)) // a replacement of the same size needs no more room
	no(t, write(j, a, 50))
	full(write(j, c, 0))
	expect(t, j, b, journal.Value, strings.Repeat("x", 100))
	settle(t, j, b)
	no(t, j.Err())
	no(t, write(j, c, 100))
	check(t, j)

	j = open(t, crash(fs), budget(2*one))
	full(write(j, b, 100))
	no(t, write(j, a, 100))
}

// The budget counts an entry's memory before the journal takes the write, not only afterwards.
func TestBudgetCountsMemory(t *testing.T) {
	j := open(t, vfs.NewMem(), budget(2*one-1))
	no(t, write(j, key("a"), 100))
	if err := write(j, key("b"), 100); !errors.Is(err, journal.ErrFull) {
		t.Errorf("error is %v", err)
	}
	no(t, write(j, key("b"), 99))
	check(t, j)
}

func TestDeadLettersCount(t *testing.T) {
	j := open(t, vfs.NewMem(), budget(one))
	no(t, write(j, key("a"), 100))
	w, _, err := j.Newest(key("a"))
	no(t, err)
	no(t, j.DeadLetter(w, journal.Failure{Status: 400, Reason: "bad"}))
	if err := write(j, key("b"), 100); !errors.Is(err, journal.ErrFull) {
		t.Errorf("error is %v", err)
	}
	again, err := j.Retry(w.Seq, journal.AnyWrite) // it replaces its dead letter
	no(t, err)
	no(t, j.DeadLetter(again, journal.Failure{Status: 400, Reason: "bad"}))
	no(t, j.Discard(again.Seq))
	no(t, write(j, key("b"), 100))
	check(t, j)
}

// disk is a file system whose free space can be set.
type disk struct {
	vfs.FS
	free atomic.Int64
	err  atomic.Pointer[error]
}

func (d *disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if err := d.err.Load(); err != nil {
		return vfs.DiskUsage{}, *err
	}
	return vfs.DiskUsage{AvailBytes: uint64(d.free.Load())}, nil
}

// contract 3
func TestFullDiskRefusesAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reserve = 1 << 20
		d := &disk{FS: vfs.NewMem()}
		d.free.Store(int64(reserve + 2*written + 10))
		j := open(t, d, func(o *journal.Options) { o.DiskReserve = reserve })
		a, b := key("a"), key("b")
		for range 3 { // a refused write takes no room
			if err := write(j, a, 400); !errors.Is(err, journal.ErrFull) {
				t.Errorf("error is %v", err)
			}
		}
		no(t, write(j, a, 100))
		no(t, write(j, a, 100)) // it is written in full, although the budget counts nothing more
		if err := write(j, a, 100); !errors.Is(err, journal.ErrFull) {
			t.Errorf("error is %v", err)
		}
		d.free.Store(reserve - 1)
		time.Sleep(time.Second)
		if err := j.Err(); !errors.Is(err, journal.ErrFull) || !strings.Contains(err.Error(), "df -i") {
			t.Errorf("Err = %v", err)
		}
		settle(t, j, a)
		state, err := j.Fill(b, observed("1"), always)
		no(t, err)
		if state.Value != "1" {
			t.Errorf("state is %+v", state)
		}
		expect(t, j, a, journal.Settled, strings.Repeat("x", 100)) // the value is on the disk
		expect(t, j, b, journal.Unknown, "")
		d.free.Store(10 * reserve)
		time.Sleep(time.Second)
		no(t, j.Err())
		no(t, write(j, b, 100))
		unknown := errors.New("cannot tell")
		d.err.Store(&unknown)
		time.Sleep(time.Second)
		no(t, write(j, b, 100)) // what was measured before counts
		d.err.Store(&vfs.ErrUnsupported)
		no(t, write(j, b, 100))
		check(t, j)
	})
}
