package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// logsIn returns the journal's logs.
func logsIn(t *testing.T, fs vfs.FS, dir string) (logs []string) {
	t.Helper()
	names, err := fs.List(dir)
	no(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			logs = append(logs, fs.PathJoin(dir, name))
		}
	}
	return logs
}

// contract 2: if another program takes the log's name, the journal ends within a second, also an idle one, acknowledges
// nothing more, and keeps what it has acknowledged.
func TestTheLogIsRemoved(t *testing.T) {
	for name, idle := range map[string]bool{"idle": true, "at work": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				var fatal []string
				j := open(t, fs, func(o *journal.Options) { o.Fatal = func(err error) { fatal = append(fatal, err.Error()) } })
				put(t, j, key("before"), "1")
				for _, log := range logsIn(t, fs, dir) {
					no(t, fs.Remove(log))
				}
				d, err := fs.OpenDir(dir)
				no(t, err)
				no(t, errors.Join(d.Sync(), d.Close())) // or the crash brings it back
				put(t, j, key("after"), "2")            // the look before still counts
				time.Sleep(time.Second)
				if idle {
					_ = j.Err() // as Maintain does each second
				} else if err := second(j.Append(journal.NewWrite{ID: key("later"), Op: journal.Put, Value: "3"})); !errors.Is(err, journal.ErrFailed) {
					t.Errorf("a write into the lost log: %v", err)
				}
				if len(fatal) != 1 || !strings.Contains(fatal[0], "removed, renamed or cut the log") || !strings.Contains(fatal[0], "safe in a table") {
					t.Errorf("Fatal was called with %q", fatal)
				}
				if err := second(j.Append(journal.NewWrite{ID: key("later"), Op: journal.Put, Value: "3"})); !errors.Is(err, journal.ErrFailed) {
					t.Errorf("a write after the end: %v", err)
				}
				j = open(t, crash(fs))
				expect(t, j, key("before"), journal.Value, "1")
				expect(t, j, key("after"), journal.Value, "2")
				wantNoValue(t, j, key("later"))
			})
		})
	}
}

// Nor is anything lost if the journal is closed before it looks.
func TestTheLogIsRemovedBeforeTheEnd(t *testing.T) {
	fs := vfs.NewMem()
	ended := false
	j := open(t, fs, func(o *journal.Options) { o.Fatal = func(error) { ended = true } })
	put(t, j, key("a"), "1")
	for _, log := range logsIn(t, fs, dir) {
		no(t, fs.Remove(log))
	}
	if err := j.Close(); !ended {
		t.Errorf("Fatal was not called, and Close returned %v", err)
	}
	expect(t, open(t, fs), key("a"), journal.Value, "1")
}

// Nor does it matter if the log is renamed, and another file has its name.
func TestTheLogIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	ended := make(chan error, 1)
	j, err := journal.Open(journal.Options{Dir: dir, Fatal: func(err error) { ended <- err }})
	no(t, err)
	defer j.Close()
	no(t, j.Run(t.Context()))
	put(t, j, key("a"), "1")
	for _, log := range logsIn(t, vfs.Default, dir) {
		no(t, os.Rename(log, log+".1"))
		no(t, os.WriteFile(log, nil, 0o600))
	}
	for err = nil; err == nil; {
		err = second(j.Append(journal.NewWrite{ID: key("b"), Op: journal.Put, Value: "2"}))
	}
	if !errors.Is(err, journal.ErrFailed) {
		t.Error(err)
	}
	if err := <-ended; !strings.Contains(err.Error(), "removed, renamed or cut the log") {
		t.Error(err)
	}
}

// Nor if it is cut, as a rotation by copy and truncate does: what comes later would stand behind a hole.
func TestTheLogIsCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	ended := make(chan error, 1)
	j, err := journal.Open(journal.Options{Dir: dir, Fatal: func(err error) { ended <- err }})
	no(t, err)
	no(t, j.Run(t.Context()))
	put(t, j, key("a"), "1")
	for _, log := range logsIn(t, vfs.Default, dir) {
		no(t, os.Truncate(log, 0))
	}
	for deadline := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(deadline); {
		err = second(j.Append(journal.NewWrite{ID: key("b"), Op: journal.Put, Value: "2"}))
	}
	if !errors.Is(err, journal.ErrFailed) {
		t.Fatalf("writes into the cut log: %v", err)
	}
	if err := <-ended; !strings.Contains(err.Error(), "cut the log") {
		t.Error(err)
	}
	_ = j.Close()
	if j, err = journal.Open(journal.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	expect(t, j, key("a"), journal.Value, "1")
}

// A log that the journal itself has done with is not lost.
func TestALogThatIsDoneWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		for range 5 {
			put(t, j, key("a"), "1")
			no(t, j.FlushTables())
			time.Sleep(time.Second)
			no(t, j.Err())
		}
	})
}
