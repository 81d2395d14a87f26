//go:build unix && !aix && !solaris

package attach

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// reapPause is the time until the next look, if a process of the reaper's own has just ended and is in the way.
const reapPause = 10 * time.Millisecond

// reaper waits for the processes that others have left to this one: to the first process of a container falls
// every process whose parent has ended. Unless somebody waits for it, it stays as a zombie. The reaper leaves its own
// children, which it has started, to their Wait.
type reaper struct {
	mu  sync.Mutex // held while a child starts, so that none ends unknown
	own map[int]bool
}

// start starts a child. A nil reaper starts it, too.
func (r *reaper) start(cmd *exec.Cmd) error {
	if r == nil {
		return cmd.Start()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		r.own[cmd.Process.Pid] = true
	}
	return err
}

// wait waits for a child. Its outcome is in ProcessState.
func (r *reaper) wait(cmd *exec.Cmd) {
	_ = cmd.Wait()
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.own, cmd.Process.Pid) // another process may get the number
	}
}

// run reaps until ctx ends.
func (r *reaper) run(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		var again <-chan time.Time
		if !r.reap() {
			again = time.After(reapPause)
		}
		select {
		case <-ended:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// reap waits for all that have ended. It returns false if a child of its own is in the way.
func (r *reaper) reap() (all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		pid := endedChild()
		if pid == 0 {
			return true
		}
		if r.own[pid] {
			return false
		}
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // it has ended
	}
}
