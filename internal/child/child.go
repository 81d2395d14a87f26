// Package child runs botwired as a child process, as its users do.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// startLimit limits how long a daemon may take to listen. It only catches hangs: a busy machine may
	// be slow.
	startLimit = 4 * time.Minute
	tailLines  = 30
)

// Process is a running daemon. It is safe for concurrent use.
type Process struct {
	cmd     *exec.Cmd
	address string

	exited   chan struct{} // closed when exitedAt and the exit code are known
	exitedAt time.Time

	mu     sync.Mutex
	stderr []string
}

// Start runs a command that is or becomes the daemon, with a JSON log, and waits until the daemon
// listens. The process sees nothing of this machine's configuration, only a home directory. On Linux it
// dies with this process.
//
// On an error, no process is left, and the error contains the end of the daemon's log.
func Start(ctx context.Context, home string, command ...string) (*Process, error) {
	p := &Process{exited: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...) //nolint:gosec // the daemon that the caller built
	p.cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	p.cmd.SysProcAttr = diesWithParent()
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	listening := make(chan string, 1)
	go p.attend(pipe, listening)
	select {
	case address, ok := <-listening:
		if !ok {
			return nil, fmt.Errorf("the daemon ended with %d instead of starting:\n%s", p.Code(), p.Tail())
		}
		p.address = address
		return p, nil
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.Kill())
	case <-time.After(startLimit):
		return nil, errors.Join(fmt.Errorf("the daemon does not listen:\n%s", p.Tail()), p.Kill())
	}
}

// attend collects stderr, reports the address when the daemon logs it, and reaps the process. It closes
// listening last.
func (p *Process) attend(pipe io.Reader, listening chan<- string) {
	defer close(listening)
	defer close(p.exited)
	from := bufio.NewReader(pipe)
	for {
		line, err := from.ReadString('\n') // of any length: the daemon blocks until it is read
		if line == "" && err != nil {
			break
		}
		line = strings.TrimSuffix(line, "\n")
		p.mu.Lock()
		p.stderr = append(p.stderr, line)
		p.mu.Unlock()
		var event struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &event) == nil && event.Msg == "listening" {
			listening <- event.Address
		}
	}
	p.exitedAt = time.Now()
	_ = p.cmd.Wait() // its error repeats the exit code
}

// URL returns the daemon's URL, without a path.
func (p *Process) URL() string { return "http://" + p.address }

// Address returns the host and port where the daemon listens.
func (p *Process) Address() string { return p.address }

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Lines returns everything that the daemon has written to stderr.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr[:len(p.stderr):len(p.stderr)]
}

// Tail returns the last lines that the daemon has written to stderr.
func (p *Process) Tail() string {
	lines := p.Lines()
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// Signal sends a signal to the process. It fails if the process has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Alive returns an error, with the end of the log, if the process has ended.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("the daemon has ended with %d:\n%s", p.Code(), p.Tail())
	default:
		return nil
	}
}

// Exited returns a channel that is closed when the process ends.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Code returns the exit code of a process that has ended, or -1 if a signal ended it.
func (p *Process) Code() int { return p.cmd.ProcessState.ExitCode() }

// ExitedAt returns when the end of the child was noticed.
func (p *Process) ExitedAt() time.Time { return p.exitedAt }

// Kill ends the process like a crash, even a stopped one, and waits for its end. It does not fail if
// the process has already ended.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.exited
	return err
}
