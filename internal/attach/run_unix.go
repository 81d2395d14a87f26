//go:build unix && !aix && !solaris

package attach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli/term"
)

// lateSignal is the time after the command's end in which run takes a signal as meant for the command:
// Ctrl-C reaches both, and the command may end first.
const lateSignal = 500 * time.Millisecond

// restartPause is the time until run starts a daemon again that has ended, and longestRestartPause the longest time between
// two attempts. A daemon that ends again and again must not keep the machine busy.
const restartPause, longestRestartPause = time.Second, 30 * time.Second

type beside struct {
	*attachment
	signals *signals
	ended   time.Time // when the command ended
}

// Run runs a command beside a daemon. It returns a [*term.Exit] with the command's exit code.
func Run(ctx context.Context, o Options, args []string) error {
	use, err := newAttachment(o)
	if err != nil {
		return err
	}
	b := &beside{attachment: use}
	if err := b.checkAddress(); err != nil {
		return err
	}
	path, err := findCommand(args[0])
	if err != nil {
		return err
	}
	b.signals = catchSignals(o.Ignored)
	reaping, stopReaping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReaping()
	b.reaper = &reaper{own: make(map[int]bool)}
	go b.reaper.run(reaping)
	if err := b.attach(ctx, b.signals.caught); err != nil {
		if b.daemon != nil {
			b.daemon.terminate()
		}
		return b.interrupted(ctx, err)
	}
	status := b.command(context.WithoutCancel(ctx), path, args)
	b.finish(context.WithoutCancel(ctx))
	return status
}

// checkAddress rejects an address that cannot be part of an SDK's URL.
func (b *beside) checkAddress() error {
	if _, ok := b.Loaded.Config.Socket(); ok {
		return fmt.Errorf("listen = %q (%s): botwired run needs an address that goes into a URL, such as 127.0.0.1:2689: BotWire's SDKs do not connect to a socket",
			b.Loaded.Config.Listen, b.Loaded.Source("listen"))
	}
	return b.checkPort()
}

// interrupted adds an exit code to the error of a run that a signal ended before its command started.
func (b *beside) interrupted(ctx context.Context, err error) error {
	var asked *askedToEnd
	switch {
	case errors.As(err, &asked):
	case ctx.Err() == nil:
		return err
	default:
		asked = &askedToEnd{syscall.SIGINT}
	}
	select {
	case sig := <-b.signals.caught: // the signal that canceled the context
		asked = &askedToEnd{sig}
	default:
	}
	return &term.Exit{Code: signalStatus(asked.signal), Err: asked}
}

// command runs the command until it ends, and passes signals on to it. It returns the exit code as an
// error.
func (b *beside) command(ctx context.Context, path string, args []string) error {
	t := b.Terminal
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Err = args, nil
	environ := t.Environ
	if at := b.client.reach.address(); at != b.Loaded.Config.Listen { // botwired's own commands go by the setting
		environ = append(slices.DeleteFunc(slices.Clone(environ), func(each string) bool { return strings.HasPrefix(each, "BOTWIRED_LISTEN=") }),
			"BOTWIRED_LISTEN="+at)
	}
	cmd.Env = commandEnviron(environ, api.Host(b.client.reach.address()), b.client.token, authorOf(t.Environ, args))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.Stdin, t.Stdout, t.Stderr
	if err := b.reaper.start(cmd); err != nil {
		return notStarted(args[0], err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.reaper.wait(cmd)
	}()
	lost := b.daemon.exitedChannel()
	restarting, stop := context.WithCancel(ctx)
	defer stop()
	var restarts sync.WaitGroup
	restarted := make(chan struct{}, 1)
	for {
		select {
		case <-ended:
			b.ended = time.Now()
			stop()
			restarts.Wait()
			return &term.Exit{Code: statusOf(cmd.ProcessState)}
		case sig := <-b.signals.caught:
			if !b.signals.reached(sig) {
				_ = cmd.Process.Signal(sig) // it may just have ended
			}
		case <-lost:
			lost = nil
			t.Say("botwired: the daemon has ended before its command, has kept every acknowledged write, and is started again: " + term.Printable(b.daemon.why()) + "\n")
			restarts.Go(func() {
				if b.restart(restarting) == nil {
					restarted <- struct{}{}
				}
			})
		case <-restarted:
			lost = b.daemon.exitedChannel()
		}
	}
}

// restart starts the daemon again, at the address that the command knows. It returns when the daemon is ready, or with an error
// when ctx ends. Until then it tries again, and says so once.
func (b *beside) restart(ctx context.Context) error {
	pauses := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(restartPause), backoff.WithMaxInterval(longestRestartPause), backoff.WithMaxElapsedTime(0))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(restartPause):
	}
	said := false
	return backoff.RetryNotify(func() error { return b.attach(ctx, nil) }, backoff.WithContext(pauses, ctx), func(err error, _ time.Duration) {
		if !said {
			b.Terminal.Say("botwired: no daemon runs beside the command: " + term.Printable(err.Error()) + "; run tries again until the command ends\n")
		}
		said = true
	})
}

// finish flushes, and ends the daemon if run started it and no other command uses it.
func (b *beside) finish(ctx context.Context) {
	ctx, stop := b.untilCutShort(ctx)
	defer stop()
	said, ended := b.endAlone(ctx)
	if !ended {
		said = b.flushShared(ctx)
	}
	b.Terminal.Say(said)
}

// untilCutShort returns a context that ends when a signal is meant to cut the flush short.
func (b *beside) untilCutShort(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case sig := <-b.signals.caught:
				if asksToEnd(sig) && time.Since(b.ended) > lateSignal {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}

// passedOn are the signals that "botwired run" passes on to its command. SIGTSTP and SIGCONT are
// missing: a shell sends them to the whole group, so they stop and continue both.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

type signals struct {
	caught   chan os.Signal
	terminal *os.File // nil without a controlling terminal
}

// catchSignals starts catching signals, except those that the process was started with as ignored, by
// nohup or by a script that runs it in the background. The command ignores them too.
func catchSignals(ignored []os.Signal) *signals {
	s := &signals{caught: make(chan os.Signal, 64)}
	for _, each := range passedOn {
		if signal.Ignored(each) || slices.Contains(ignored, each) {
			signal.Ignore(each)
			continue
		}
		signal.Notify(s.caught, each)
	}
	// If the reader of stderr goes away, run must not end before its command. With Notify, the command
	// still has the signal's default action; with Ignore it would not.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0); err == nil {
		s.terminal = tty
	}
	return s
}

// reached reports whether the command has received a signal directly. A terminal sends its signals to
// the whole foreground group, which includes run and its command.
func (s *signals) reached(sig os.Signal) bool {
	if s.terminal == nil {
		return false
	}
	foreground, err := foregroundGroup(s.terminal)
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH:
		return err == nil && foreground == syscall.Getpgrp()
	case syscall.SIGHUP:
		return err != nil // the terminal hung up
	}
	return false
}

func asksToEnd(sig os.Signal) bool {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		return true
	}
	return false
}

func signalStatus(sig os.Signal) int {
	number, _ := sig.(syscall.Signal)
	return ExitSignal + int(number)
}

func statusOf(state *os.ProcessState) int {
	if ended, ok := state.Sys().(syscall.WaitStatus); ok && ended.Signaled() {
		return signalStatus(ended.Signal())
	}
	return state.ExitCode()
}

// foregroundGroup calls tcgetpgrp, which package syscall lacks.
func foregroundGroup(tty *os.File) (int, error) {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGPGRP,
		uintptr(unsafe.Pointer(&group))) //nolint:gosec // as ioctl wants it
	if errno != 0 {
		return 0, errno
	}
	return int(group), nil
}
