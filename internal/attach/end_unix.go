//go:build unix && !aix && !solaris

package attach

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// statusPatience limits a status request while a command waits for something else.
const statusPatience = 2 * time.Second

// endAlone ends the daemon if the command started it and no other command uses it. Otherwise it returns
// false, and the daemon goes on. said tells what the daemon has kept, or is "". If ctx ends, the daemon
// cuts its flush short.
func (a *attachment) endAlone(ctx context.Context) (said string, ended bool) {
	if a.daemon == nil {
		return "", false
	}
	if a.daemon.hasExited() {
		return "", true
	}
	// From now on, other commands wait until the daemon has ended, and then start their own.
	if alone, err := a.users.try(syscall.LOCK_EX); err == nil && alone {
		return a.stopDaemon(ctx), true
	}
	// The attempt gave up the shared lock, without which the daemon could end during a flush. If the
	// daemon was faster, the flush fails and says so.
	_, _ = a.users.try(syscall.LOCK_SH)
	return "", false
}

// abandon ends the attachment of a command that has not started to use its daemon.
func (a *attachment) abandon() {
	if a.daemon != nil {
		a.daemon.terminate()
	}
}

func (d *ownDaemon) terminate() { _ = d.cmd.Process.Signal(syscall.SIGTERM) } // it may just have ended

// stopDaemon makes the daemon flush and end, and returns what it keeps, or "".
func (a *attachment) stopDaemon(ctx context.Context) string {
	cut := ctx.Done()
	ctx = context.WithoutCancel(ctx)
	last := a.status(ctx)
	a.daemon.terminate()
	tick, stopTicks := a.Terminal.Ticks()
	defer stopTicks()
	for {
		select {
		case <-a.daemon.exited:
			a.Terminal.ShowLine("")
			return a.kept(last)
		case <-cut:
			cut = nil
			a.daemon.terminate()
		case <-tick:
			if s := a.status(ctx); s != nil {
				last = s
				a.Terminal.ShowLine(words.Plural(s.Pending, "write") + " still to go")
			}
		}
	}
}

// kept returns what the daemon has kept, or "". last is its last known status.
func (a *attachment) kept(last *api.Status) string {
	result, ok := a.users.left()
	if !ok { // the drain was cut short
		if last == nil || last.Pending == 0 {
			return ""
		}
		result.Pending = last.Pending
	}
	upstream, why := a.Loaded.Config.Upstream.URL, ""
	if last != nil && last.Upstream.Reason != "" {
		why = term.Printable(fmt.Sprintf("; %s is %s: %s", upstream, last.Upstream.State, last.Upstream.Reason))
	}
	text := ""
	if n := result.Pending; n > 0 {
		text = fmt.Sprintf("botwired: %s on this disk and %s to %s with the next start of botwired%s\n",
			areWrites(n), oneOrMore(n, "goes", "go"), upstream, why)
	}
	if result.Dead > 0 {
		text += fmt.Sprintf("botwired: upstream has refused %s for good: once botwired runs, \"botwired dead-letters\" says why\n", words.Plural(result.Dead, "write"))
	}
	return text
}

// flushShared flushes a daemon that goes on, and returns what is still pending, or "".
func (a *attachment) flushShared(ctx context.Context) string {
	limit := max(min(a.Loaded.Config.Flush.DrainTimeout, api.MaxFlush), time.Millisecond)
	stop := a.Terminal.ShowProgress(ctx, func(ctx context.Context) string {
		if s := a.status(ctx); s != nil {
			return fmt.Sprint(s.Pending, " pending")
		}
		return ""
	})
	result, err := a.client.Flush(ctx, "", limit, false)
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Sprintf("botwired: the daemon at %s goes on with what is pending\n", a.client.Listen)
	case err != nil:
		return "botwired: nobody knows what is still pending: " + term.Printable(err.Error()) + "\n"
	case result.Pending > 0:
		n := result.Pending
		return fmt.Sprintf("botwired: %s still pending: the daemon at %s keeps %s and goes on\n",
			areWrites(n), a.client.Listen, oneOrMore(n, "it", "them"))
	}
	return ""
}

func areWrites(n int) string { return words.Plural(n, "write") + oneOrMore(n, " is", " are") }

func oneOrMore(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// status returns the daemon's status, or nil if it does not answer.
func (a *attachment) status(ctx context.Context) *api.Status {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	s, err := a.client.Status(ctx)
	if err != nil {
		return nil
	}
	return s
}
