//go:build faults && linux

package faults

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tracer is a strace that makes system calls of a process fail.
type tracer struct {
	cmd      *exec.Cmd
	out      string
	attached chan struct{}
	exited   chan struct{}
}

// inject attaches to a running process. expression is strace's, such as
// "fdatasync:error=EIO:when=20+". If there is a file, only calls on it fail. Each
// thread of the process counts its calls by itself.
func inject(t *testing.T, pid int, expression, file string) *tracer {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	calls, _, _ := strings.Cut(expression, ":")
	tr := &tracer{
		out: filepath.Join(t.TempDir(), "strace"), attached: make(chan struct{}), exited: make(chan struct{}),
	}
	args := []string{
		"-f", "-ttt", "-o", tr.out, "-e", "trace=" + calls, "-e", "inject=" + expression,
		"-e", "signal=none", "-p", strconv.Itoa(pid),
	}
	if file != "" {
		args = append(args, "-P", file)
	}
	tr.cmd = exec.Command(path, args...)
	tr.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := tr.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.end(t) })
	said := tr.attend(pipe)
	select {
	case <-tr.attached:
	case <-tr.exited:
		t.Skipf("strace cannot attach here: %s", said())
	case <-time.After(time.Minute):
		t.Fatal("strace does not attach")
	}
	return tr
}

// attend waits for strace's word that it has attached, and for its end.
func (tr *tracer) attend(pipe io.Reader) (said func() string) {
	var mu sync.Mutex
	var text strings.Builder
	go func() {
		defer close(tr.exited)
		var once sync.Once
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			mu.Lock()
			text.WriteString(lines.Text() + "\n")
			mu.Unlock()
			if strings.Contains(lines.Text(), " attached") {
				once.Do(func() { close(tr.attached) })
			}
		}
		_ = tr.cmd.Wait() // its exit code is its tracee's
	}()
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

// end detaches: an interrupt makes strace let go of the process.
func (tr *tracer) end(t *testing.T) {
	t.Helper()
	select {
	case <-tr.exited:
		return
	default:
	}
	_ = tr.cmd.Process.Signal(syscall.SIGINT) // strace may just have ended
	select {
	case <-tr.exited:
	case <-time.After(5 * time.Second):
		_ = tr.cmd.Process.Kill()
		<-tr.exited
	}
}

// first returns the time of the first failed call, and the number of failed calls.
func (tr *tracer) first(t *testing.T) (at time.Time, count int) {
	t.Helper()
	text, err := os.ReadFile(tr.out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "(INJECTED)") {
			continue
		}
		if count++; count > 1 {
			continue
		}
		fields := strings.Fields(line) // thread, time, call
		seconds, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		at = time.UnixMicro(int64(seconds * 1e6))
	}
	if count == 0 {
		t.Fatalf("no call failed:\n%.2000s", text)
	}
	return at, count
}
