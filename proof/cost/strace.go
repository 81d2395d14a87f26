package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// tracer counts the system calls of a process.
type tracer struct {
	cmd     *exec.Cmd
	out     string
	drained chan struct{} // closed when strace has nothing more to say
}

// attach returns when strace counts the system calls of a process.
func attach(ctx context.Context, pid int, out string) (*tracer, error) {
	t := &tracer{out: out, drained: make(chan struct{})}
	t.cmd = exec.CommandContext(ctx, "strace", "-f", "-c", "-U", "name,calls,errors", "-o", out, "-p", strconv.Itoa(pid))
	said, err := t.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("strace, which counts the system calls, does not start: install it (apt-get install strace): %w", err)
	}
	from := bufio.NewReader(said)
	line, err := from.ReadString('\n')
	go func() {
		defer close(t.drained)
		_, _ = io.Copy(io.Discard, from) // it names each thread that it leaves
	}()
	if err == nil && strings.Contains(line, " attached") {
		return t, nil
	}
	<-t.drained
	_ = t.cmd.Wait() // it has said why
	return nil, fmt.Errorf("strace cannot trace the daemon: %q: the machine has to permit ptrace: run as root, set "+
		"kernel.yama.ptrace_scope to 0, or give the container CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE); with -objects, cost counts allocations only", strings.TrimSpace(line))
}

// detach ends the count.
func (t *tracer) detach() (map[string]calls, error) {
	if err := t.cmd.Process.Signal(os.Interrupt); err != nil {
		return nil, err
	}
	<-t.drained
	_ = t.cmd.Wait() // it ends by the signal
	text, err := os.ReadFile(t.out)
	if err != nil {
		return nil, err
	}
	return parseCalls(string(text))
}

// parseCalls reads strace's summary: a line for each system call, between two lines of dashes, with
// its name, the number of calls and, if it is not 0, that of errors.
func parseCalls(summary string) (map[string]calls, error) {
	counted := make(map[string]calls)
	rules := 0
	for line := range strings.Lines(summary) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "-"):
			rules++
		case rules == 1 && (len(fields) == 2 || len(fields) == 3):
			var c calls
			var err, second error
			c.all, err = strconv.Atoi(fields[1])
			if len(fields) == 3 {
				c.failed, second = strconv.Atoi(fields[2])
			}
			if err := errors.Join(err, second); err != nil {
				return nil, fmt.Errorf("strace's summary: %q: %w", line, err)
			}
			counted[fields[0]] = c
		}
	}
	if rules != 2 || len(counted) == 0 {
		return nil, fmt.Errorf("strace's summary is not whole: %q", summary)
	}
	return counted, nil
}

// traced runs a batch and returns the system calls of the daemon meanwhile. It uses a file of a folder.
func (b batch) traced(ctx context.Context, pid int, dir string) (counted map[string]calls, err error) {
	var t *tracer
	defer func() {
		if t != nil && counted == nil {
			_ = t.cmd.Process.Kill() // the batch has failed
		}
	}()
	begin := func() (err error) {
		t, err = attach(ctx, pid, filepath.Join(dir, "calls"))
		return err
	}
	end := func() (err error) {
		counted, err = t.detach()
		return err
	}
	err = b.run(ctx, begin, end)
	return counted, err
}
