//go:build unix && !aix && !solaris

package attach

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"unsafe"
)

// passedOn are the signals that "botwired run" passes on to its command. SIGTSTP and SIGCONT are
// missing: a shell sends them to the whole group, so they stop and continue both.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// signals catches the signals that are meant for a command.
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

// statusOf returns the exit code of a finished command, as a shell reports it.
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
