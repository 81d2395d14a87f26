//go:build faults && linux

package faults

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// answerSlack is how late this test may see an answer that the daemon gave before the
// failure, beside the slack of a busy machine: the daemon is traced.
const answerSlack = 250 * time.Millisecond

// A disk fails under load, in one way or another. The daemon acknowledges nothing more,
// and the process ends within a second with one line that says why. A restart has every
// acknowledged write (contract 2).
func TestFailingDisk(t *testing.T) {
	for _, fault := range []struct {
		name, expression, says string
		log                    bool // only on the files of the journal's log
	}{
		{"fsync EIO", "fdatasync,fsync,sync_file_range:error=EIO:when=5+", "input/output error", false},
		{"fsync EIO once", "fdatasync,fsync,sync_file_range:error=EIO:when=5", "input/output error", false},
		{"write EIO", "write,pwrite64:error=EIO:when=5+", "input/output error", true},
		{"write ENOSPC", "write,pwrite64:error=ENOSPC:when=5+", "no space left on device", true},
		{"write ENOSPC once", "write,pwrite64:error=ENOSPC:when=5", "no space left on device", true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			up := newUpstream(t)
			up.down(t) // so that every write is only in the journal
			dir := t.TempDir()
			d := start(t, dir, up)
			l := newLedger()
			writers := l.write(t, d.client, "k", 8, 10, 500)
			eventually(t, time.Minute, "load", func() error { return l.reached(200) })
			writers.end() // however long strace takes to attach, the active log remains the active one
			file := ""
			if fault.log {
				file = activeLog(t, dir)
			}
			tr := inject(t, d.Pid(), fault.expression, file)
			writers = l.write(t, d.client, "k", 8, 10, 500)
			code := d.waitExit(t, time.Minute)
			writers.end()
			tr.end(t)
			diedOfIt(t, d, tr, l, code, fault.says)
			soundAfterwards(t, dir, up, l)
		})
	}
}

// activeLog returns the newest of the journal's logs, which the daemon writes to.
func activeLog(t *testing.T, dir string) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "journal", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log in %s: %v", dir, err)
	}
	return logs[len(logs)-1]
}

// diedOfIt checks how the process ended after the first failure.
func diedOfIt(t *testing.T, d *daemon, tr *tracer, l *ledger, code int, says string) {
	t.Helper()
	if code <= 0 {
		t.Errorf("exit code %d, want one that says failure", code)
	}
	failedAt, failures := tr.first(t)
	took := d.ExitedAt().Sub(failedAt)
	late, latest := l.ackedAfter(failedAt)
	t.Logf("%d writes taken, %d calls failed, exit %d after %.1f ms; last answer %.1f ms after the failure",
		l.answered(http.StatusOK), failures, code, ms(took), ms(latest.Sub(failedAt)))
	busy := slack(t)
	if took > time.Second+busy {
		t.Errorf("the process ended %s after the failure, on a machine that may add %s", took, busy)
	}
	if late > 0 {
		t.Errorf("%d writes that were begun after the failure were acknowledged", late)
	}
	if latest.Sub(failedAt) > answerSlack+busy {
		t.Errorf("a write was acknowledged %s after the failure", latest.Sub(failedAt))
	}
	lines := d.complaints()
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "botwired: ") || !strings.Contains(lines[0], says) {
		t.Errorf("want one line on stderr that says %q, got %d:\n%s", says, len(lines), strings.Join(lines, "\n"))
	}
}

// soundAfterwards restarts the daemon on the directory, with a healthy disk.
func soundAfterwards(t *testing.T, dir string, up *fakeUpstream, l *ledger) {
	t.Helper()
	d := start(t, dir, up)
	l.audit(t, "the restarted daemon", d.client)
	if status, answer := l.put(d.client, "afterwards", 100); status != http.StatusOK {
		t.Errorf("a write after the restart: %d %.200s", status, answer)
	}
	up.up(t)
	d.drained(t, drainLimit)
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
