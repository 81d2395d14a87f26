package journal_test

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// failing is a disk that can fail chosen operations, and what the journal reports about it.
type failing struct {
	mem   *vfs.MemFS
	fs    vfs.FS
	fault *errorfs.Toggle

	mu    sync.Mutex
	fatal []error
	said  chan struct{} // closed at the first call of Fatal
}

func newFailing(err error, fails func(errorfs.Op) bool) *failing {
	f := &failing{mem: vfs.NewCrashableMem(), said: make(chan struct{})}
	f.fault = &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fails(op) {
			return err
		}
		return nil
	})}
	f.fs = errorfs.Wrap(f.mem, f.fault)
	return f
}

func (f *failing) open(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: dir, FS: f.fs, Fatal: func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.fatal = append(f.fatal, err); len(f.fatal) == 1 {
			close(f.said)
		}
	}})
	no(t, err)
	t.Cleanup(func() { _ = j.Close() })
	no(t, j.Run(t.Context()))
	return j
}

// mustHaveFailed checks contract 2: Fatal was called once, with one line, and nothing more is
// acknowledged even though the disk works again.
func (f *failing) mustHaveFailed(t *testing.T, j *journal.Journal) {
	t.Helper()
	<-f.said
	f.fault.Off()
	w := journal.Write{ID: key("a"), Seq: 1, Op: journal.Put, Value: "1"}
	for what, err := range map[string]error{
		"Append":       second(j.Append(journal.NewWrite{ID: key("after"), Op: journal.Put})),
		"Settle":       j.Settle(w),
		"DeadLetter":   j.DeadLetter(w, journal.Failure{Status: 400, Reason: ""}),
		"BeginSending": j.BeginSending(),
		"Fill":         second(j.Fill(key("b"), observed("1"), always)),
		"Listing":      j.BeginListing("ns").Commit(rows("a"), true),
		"Changed":      second(j.Append(journal.NewWrite{ID: key("a"), Op: journal.Put, If: func(uint64) bool { return false }})),
		"Err":          j.Err(),
	} {
		if !errors.Is(err, journal.ErrFailed) {
			t.Errorf("%s after the failure = %v", what, err)
		}
	}
	expect(t, j, key("a"), journal.Value, "1") // reads go on
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.fatal) != 1 || strings.Contains(f.fatal[0].Error(), "\n") {
		t.Errorf("Fatal was called with %q", f.fatal)
	}
	expect(t, open(t, crash(f.mem)), key("a"), journal.Value, "1")
}

func isLog(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".log") }

func isSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}

func logSync(op errorfs.Op) bool { return isLog(op) && isSync(op) }

func logWrite(op errorfs.Op) bool { return isLog(op) && op.Kind == errorfs.OpFileWrite }

// contract 2
func TestFailedLogEndsTheJournal(t *testing.T) {
	for name, fails := range map[string]func(errorfs.Op) bool{"sync": logSync, "write": logWrite} {
		for what, write := range map[string]func(*journal.Journal, journal.Write) error{
			"append": func(j *journal.Journal, _ journal.Write) error {
				return second(j.Append(journal.NewWrite{ID: key("lost"), Op: journal.Put, Value: "1"}))
			},
			"settle": (*journal.Journal).Settle,
			"bury": func(j *journal.Journal, w journal.Write) error {
				return j.DeadLetter(w, journal.Failure{Status: 400, Reason: "bad"})
			},
			"bury after it was sent": func(j *journal.Journal, w journal.Write) error {
				sent(t, j, w)
				return j.DeadLetter(w, journal.Failure{Status: 400, Reason: "bad"})
			},
			"lose": func(j *journal.Journal, w journal.Write) error { return j.Fence.Lose(w, foreign("2", 20), "later") },
			"keepOverwritten": func(j *journal.Journal, w journal.Write) error {
				return j.Fence.KeepOverwritten(w.ID, foreign("2", 20))
			},
			"begin to send": func(j *journal.Journal, _ journal.Write) error { return j.BeginSending() },
			"fill": func(j *journal.Journal, _ journal.Write) error {
				return second(j.Fill(key("f"), observed("1"), always))
			},
			"listing":  func(j *journal.Journal, _ journal.Write) error { return j.BeginListing("ns").Commit(rows("r"), true) },
			"many big": func(j *journal.Journal, _ journal.Write) error { return writeMuch(j) },
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				f := newFailing(syscall.EIO, fails)
				j := f.open(t)
				put(t, j, key("a"), "1")
				w := put(t, j, key("b"), "2")
				f.fault.On()
				if err := write(j, w); !errors.Is(err, journal.ErrFailed) {
					t.Errorf("error is %v", err)
				}
				wantNoValue(t, j, key("lost")) // never durable, never visible
				if n := j.NotDurable(); n != 0 {
					t.Errorf("readers wait for %d fills", n)
				}
				f.mustHaveFailed(t, j)
			})
		}
	}
}

// writeMuch writes until a write fails, or until it has written more than a memtable and a log hold.
func writeMuch(j *journal.Journal) error {
	value := strings.Repeat("x", 64<<10)
	for i := range 400 {
		if _, err := j.Append(journal.NewWrite{ID: key("%d", i), Op: journal.Put, Value: value}); err != nil {
			return err
		}
	}
	return nil
}

// A failed table write in the background ends the journal.
func TestFailureInTheBackgroundEndsTheJournal(t *testing.T) {
	for name, fails := range map[string]func(errorfs.Op) bool{
		"table":  func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") && isSync(op) },
		"create": func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") && op.Kind == errorfs.OpCreate },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFailing(syscall.EIO, fails)
			j := f.open(t)
			put(t, j, key("a"), "1")
			f.fault.On()
			no(t, j.RotateLog()) // do not wait for the table, which may never be written
			f.mustHaveFailed(t, j)
		})
	}
}

// contract 3: while a table finds no room, the journal refuses writes, even if the system reports free space.
// Maintenance goes on and holds up nobody. Once there is room, nothing is missing.
func TestFullDiskInTheBackgroundIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailing(syscall.ENOSPC, func(op errorfs.Op) bool {
			return strings.HasSuffix(op.Path, ".sst") && op.Kind == errorfs.OpCreate
		})
		j := f.open(t)
		value := noise(100 << 10)
		for i := range 60 {
			put(t, j, key("%d", i), value)
		}
		f.fault.On()
		no(t, j.RotateLog())
		maintain(t, j, time.Minute)
		if err := write(j, key("a"), 1); !errors.Is(err, journal.ErrFull) {
			t.Errorf("while a table finds no room, a write: %v", err)
		}
		if err := j.MaySend(); !errors.Is(err, journal.ErrFull) {
			t.Errorf("while a table finds no room, an attempt: %v", err)
		}
		expect(t, j, key("7"), journal.Value, value)
		f.fault.Off()
		time.Sleep(time.Second)
		put(t, j, key("a"), "2")
		expect(t, open(t, crash(f.mem)), key("a"), journal.Value, "2")
		if len(f.fatal) != 0 {
			t.Errorf("Fatal was called with %v", f.fatal)
		}
	})
}

// contract 3: a first start waits for the room that the directory itself and its lock need.
func TestFullDiskAtTheFirstStartIsWaitedOut(t *testing.T) {
	for name, kind := range map[string]errorfs.OpKind{"directory": errorfs.OpMkdirAll, "lock": errorfs.OpLock} {
		t.Run(name, func(t *testing.T) {
			f := newFailing(syscall.ENOSPC, func(op errorfs.Op) bool { return op.Kind == kind })
			f.fault.On()
			var asked []int64
			j, err := journal.Open(journal.Options{Dir: dir, FS: f.fs, AwaitRoom: func(needed int64) error {
				if asked = append(asked, needed); len(asked) == 2 {
					f.fault.Off()
				}
				return nil
			}})
			no(t, err)
			no(t, j.Close())
			if len(asked) != 2 || asked[0] <= 0 || asked[1] <= 0 {
				t.Errorf("it asked for %d bytes, want twice a number of them", asked)
			}
		})
	}
}
