//go:build unix && !aix && !solaris

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/service"
)

const (
	// statusPatience bounds a look at the status while run waits for something else.
	statusPatience = 2 * time.Second
	// lateSignal is how long after the end of its command run takes a signal for one that was
	// meant for the command: Ctrl-C reaches both, and the command may be faster.
	lateSignal = 500 * time.Millisecond
)

// start starts a daemon in a session of its own: the signals of the terminal do not reach
// it. It may outlive run, so it has none of run's streams: whoever reads them until their
// end would wait for the daemon, too.
func (b *beside) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("botwired run cannot find its own program to start the daemon: %w", err)
	}
	name := filepath.Join(b.loaded.Config.DataDir, runLog)
	log, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC|syscall.O_NOFOLLOW, lockFileMode)
	if err != nil {
		return fmt.Errorf("data_dir = %q: %w", b.loaded.Config.DataDir, unusable(err))
	}
	defer log.Close()                                                                             // the daemon has its own
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, b.settings.daemonArguments()...) //nolint:gosec // botwired itself, with the flags of its caller
	cmd.Env, cmd.Stderr = service.Outside(b.process.environ), log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("botwired run cannot start the daemon: %s", reason(err))
	}
	b.daemon = &ownDaemon{cmd, name, make(chan struct{})}
	return nil
}

// wait waits for the daemon's end. Nobody else starts one before.
func (d *ownDaemon) wait(starting *fileLock) {
	defer close(d.exited)
	defer starting.close()
	_ = d.cmd.Wait() // the outcome is in ProcessState
}

// why says why the daemon has ended: its own last words, or where its log is.
func (d *ownDaemon) why() string {
	text, err := os.ReadFile(d.log)
	at := bytes.LastIndex(text, []byte("\nbotwired: ")) + 1
	if said, ok := bytes.CutPrefix(text[at:], []byte("botwired: ")); err == nil && ok {
		line, _, _ := bytes.Cut(said, []byte("\n"))
		return string(line)
	}
	return fmt.Sprintf("%s; its log is %s", d.cmd.ProcessState, d.log)
}

// command runs the command until it ends, and passes signals on to it. Its error has the
// exit code.
func (b *beside) command(ctx context.Context, path string, args []string) error {
	p := b.process
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Err = args, nil
	cmd.Env = commandEnviron(p.environ, b.client.host, b.client.token)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.stdout, p.stderr
	if err := cmd.Start(); err != nil {
		return notStarted(args[0], err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the outcome is in ProcessState
	}()
	lost := b.daemon.exitedChannel()
	for {
		select {
		case <-ended:
			b.ended = time.Now()
			return &exitStatus{code: statusOf(cmd.ProcessState)}
		case sig := <-b.signals.caught:
			if !b.signals.reached(sig) {
				_ = cmd.Process.Signal(sig) // it may just have ended
			}
		case <-lost:
			lost = nil
			p.say("botwired: the daemon has ended before its command, and has kept every acknowledged write: " + printable(b.daemon.why()) + "\n")
		}
	}
}

// finish flushes, and ends the daemon if run has started it and no other run uses it.
func (b *beside) finish(ctx context.Context) {
	if b.daemon != nil {
		select {
		case <-b.daemon.exited:
			return
		default:
		}
		// From here on, another run waits until the daemon has ended, and starts its own.
		if alone, err := b.users.try(syscall.LOCK_EX); err == nil && alone {
			b.process.say(b.stopDaemon(ctx))
			return
		}
		// That has cost the shared lock, without which the daemon could end amid the flush.
		// If the daemon was faster, the flush fails, and says so.
		_, _ = b.users.try(syscall.LOCK_SH)
	}
	b.process.say(b.flushShared(ctx))
}

// abandon ends a run that has no command.
func (b *beside) abandon() {
	if b.daemon != nil {
		b.daemon.terminate()
	}
}

func (d *ownDaemon) terminate() { _ = d.cmd.Process.Signal(syscall.SIGTERM) } // it may just have ended

// stopDaemon has the daemon flush and end, and says what it keeps, or "". A signal that
// asks run to end cuts the flush short.
func (b *beside) stopDaemon(ctx context.Context) string {
	last := b.status(ctx)
	b.daemon.terminate()
	onTerminal := b.process.isTerminal(b.process.stderr)
	show := func(line string) {
		if onTerminal {
			b.process.showLine(line)
		}
	}
	tick, stopTicks := b.process.ticks()
	defer stopTicks()
	for {
		select {
		case <-b.daemon.exited:
			show("")
			return b.kept(last)
		case sig := <-b.signals.caught:
			if b.cutsShort(sig) {
				b.daemon.terminate()
			}
		case <-tick:
			if s := b.status(ctx); s.Pending != "" {
				last = s
				show(printable(plural(s.Pending.number(), "write") + " still to go"))
			}
		}
	}
}

// kept says what the daemon has kept, which has told its last status before.
func (b *beside) kept(last status) string {
	result, ok := b.users.left()
	if !ok { // it was cut short
		if result.Pending = last.Pending.number(); result.Pending == 0 {
			return ""
		}
	}
	upstream, why := b.loaded.Config.Upstream.URL, ""
	if last.Upstream.Reason != "" {
		why = printable(fmt.Sprintf("; %s is %s: %s", upstream, last.Upstream.State, last.Upstream.Reason))
	}
	text := ""
	if n := result.Pending; n > 0 {
		text = fmt.Sprintf("botwired: %s on this disk and %s to %s with the next start of botwired%s\n",
			areWrites(n), oneOrMore(n, "goes", "go"), upstream, why)
	}
	if result.Dead > 0 {
		text += fmt.Sprintf("botwired: upstream has refused %s for good: once botwired runs, \"botwired dead-letters\" says why\n", plural(result.Dead, "write"))
	}
	return text
}

// flushShared has a daemon flush that goes on afterwards, and says what is still pending,
// or "".
func (b *beside) flushShared(ctx context.Context) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case sig := <-b.signals.caught:
				if b.cutsShort(sig) {
					cancel()
				}
			}
		}
	}()
	limit := max(min(b.loaded.Config.Flush.DrainTimeout, maxTimeout), time.Millisecond)
	stop := showPending(ctx, b.process, b.client, "")
	body, err := flush(ctx, b.client, "", limit, false)
	stop()
	var late *statusError
	if errors.As(err, &late) && late.status == http.StatusGatewayTimeout {
		body, err = late.body, nil
	}
	var result flushResult
	if err == nil {
		err = json.Unmarshal(body, &result)
	}
	switch n := result.Pending.number(); {
	case errors.Is(err, context.Canceled):
		return fmt.Sprintf("botwired: the daemon at %s goes on with what is pending\n", b.client.listen)
	case err != nil:
		return "botwired: nobody knows what is still pending: " + printable(err.Error()) + "\n"
	case n > 0:
		return fmt.Sprintf("botwired: %s still pending after %s, and the daemon at %s goes on with %s\n",
			areWrites(n), config.FormatDuration(limit), b.client.listen, oneOrMore(n, "it", "them"))
	}
	return ""
}

// cutsShort reports whether a signal is to cut the flush short.
func (b *beside) cutsShort(sig os.Signal) bool {
	return asksToEnd(sig) && time.Since(b.ended) > lateSignal
}

func areWrites(n int) string { return plural(n, "write") + oneOrMore(n, " is", " are") }

func oneOrMore(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// status is the daemon's, or the zero status if it does not say.
func (b *beside) status(ctx context.Context) (s status) {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	body, err := b.client.do(ctx, request{method: http.MethodGet, path: surface("status")})
	if err == nil {
		s, err = readStatus(b.client, body)
	}
	if err != nil {
		return status{}
	}
	return s
}
