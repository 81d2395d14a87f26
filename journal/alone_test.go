package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// fatalStatus is the exit code of these tests' processes when the journal calls Fatal.
const fatalStatus = 77

// alone runs the test in a separate process and checks its exit code, unless the process has crashed with
// one of some texts. It reports whether this is that process.
func alone(t *testing.T, status int, crashes ...string) bool {
	t.Helper()
	if os.Getenv(journal.AloneEnv) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=30s")
	cmd.Env = append(os.Environ(), journal.AloneEnv+"=1")
	out, err := cmd.CombinedOutput()
	crashed := slices.ContainsFunc(crashes, func(text string) bool { return strings.Contains(string(out), text) })
	if got := cmd.ProcessState.ExitCode(); got != status && !crashed {
		t.Fatalf("ended with %d, want %d: %v\n%s", got, status, err, out)
	}
	return false
}

// onFailingDisk opens a journal. Once the toggle is on, its disk fails the chosen operations on a file.
func onFailingDisk(t *testing.T, file string, fatal func(error), fails func(errorfs.Op) bool) (*journal.Journal, *errorfs.Toggle) {
	t.Helper()
	fault := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.Contains(op.Path, file) && fails(op) {
			return syscall.EIO
		}
		return nil
	})}
	j, err := journal.Open(journal.Options{Dir: "j", FS: errorfs.Wrap(vfs.NewMem(), fault), Fatal: fatal})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return j, fault
}

var big = strings.Repeat("x", 64<<10)

// contract 2: Pebble crashes if it cannot make its next log. Before that, the journal gives the reason
// and ends the process.
func TestFailureToRotateTheLog(t *testing.T) {
	if !alone(t, fatalStatus) {
		return
	}
	j, fault := onFailingDisk(t, ".log", exit, func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite
	})
	fault.On()
	for i := range 1000 {
		no(t, putting(j, key("%d", i), big)())
	}
}

// exit does what the daemon does when the disk has failed.
func exit(err error) {
	fmt.Println(err)
	os.Exit(fatalStatus)
}

// contract 2: after a failed sync of the manifest, Pebble no longer knows its own tables. The process
// must end before Pebble goes on.
func TestFailureOfTheManifest(t *testing.T) {
	if !alone(t, fatalStatus) {
		return
	}
	j, fault := onFailingDisk(t, "MANIFEST", exit, func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
	})
	put(t, j, key("k"), "1")
	fault.On()
	t.Fatalf("the table was written: %v", j.FlushTables())
}

// contract 2: Pebble panics, with its locks held, if it gets a write after its log has failed but
// before the waiting caller has the error. net/http would swallow the panic, and all later writes would
// hang.
func TestWriteBehindAFailedOne(t *testing.T) {
	// Seldom, Pebble panics with a mutex unlocked that it unlocks once more. A daemon has ended by then.
	if !alone(t, 0, "sync: unlock of unlocked mutex") {
		return
	}
	fatal := make(chan error, 2) // the failure may reach Pebble's goroutine
	j, fault := onFailingDisk(t, ".log", func(err error) { fatal <- err }, func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite })
	fault.On()
	ended := make(chan error, 1000)
	for i := range cap(ended) { // no writer waits for another one's sync
		go func() { ended <- putting(j, key("%d", i), big)() }()
		runtime.Gosched() // with one processor, the log would be full before anything of it is written
	}
	<-fatal
	failed := 0
	for range cap(ended) {
		if err := <-ended; errors.Is(err, journal.ErrFailed) {
			failed++
		} else if err != nil {
			t.Errorf("error is %v", err)
		}
	}
	if failed == 0 {
		t.Error("no write was refused")
	}
	w := journal.Write{ID: key("0"), Seq: 1, Op: journal.Put}
	for _, err := range []error{j.Settle(w), j.BeginSending(), j.Close()} {
		if !errors.Is(err, journal.ErrFailed) {
			t.Errorf("error is %v", err)
		}
	}
	if len(fatal) != 0 {
		t.Error("Fatal was called again")
	}
}
