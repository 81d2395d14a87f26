//go:build unix && !aix && !solaris

package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/service"
	"github.com/botwired/botwired/internal/words"
)

// attachment is a command's use of a daemon. If there is no daemon, the command starts one, which runs
// until nobody uses it.
type attachment struct {
	look
	users   *fileLock  // shared while the daemon is used; nil if no command has started one for this data directory
	daemon  *ownDaemon // nil if the command did not start the daemon
	reaper  *reaper    // may be nil
	foreign bool       // neither this command nor another one started the daemon
}

type ownDaemon struct {
	cmd    *exec.Cmd
	log    string // the log's file
	exited chan struct{}
}

// exitedChannel returns nil, which blocks forever, if the command did not start the daemon.
func (d *ownDaemon) exitedChannel() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.exited
}

func (d *ownDaemon) hasExited() bool {
	select {
	case <-d.exitedChannel():
		return true
	default:
		return false
	}
}

type askedToEnd struct{ signal os.Signal }

func (a *askedToEnd) Error() string { return "interrupted" }

// attach returns when a daemon is ready, and starts one if there is none. While a command holds the
// shared lock, no daemon of the data directory ends for lack of users. So attach takes the lock before
// it probes. It may be called again when the daemon is gone.
func (a *attachment) attach(ctx context.Context, caught <-chan os.Signal) error {
	a.begin()
	earlier := a.daemon
	for {
		attached, err := a.tryAttach(ctx)
		if attached || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case sig := <-caught:
			if asksToEnd(sig) {
				return &askedToEnd{sig}
			}
		case <-a.daemon.exitedChannel():
			if a.daemon == earlier {
				a.daemon = nil // it was ready before, so another one is started
				continue
			}
			return fmt.Errorf("the daemon that %s has started has ended before it was ready: %s", a.Name, a.daemon.why())
		case <-time.After(attachPause):
		}
	}
}

func (a *attachment) tryAttach(ctx context.Context) (attached bool, err error) {
	if err := a.openUsers(false); err != nil {
		return false, err
	}
	if a.users != nil {
		if free, err := a.users.try(syscall.LOCK_SH); err != nil || !free {
			a.waitFor("the daemon of " + a.Loaded.Config.DataDir + " is stopping")
			return false, err
		}
	}
	switch state, err := a.probe(ctx); {
	case err != nil:
		return false, err
	case state == daemonReady:
		had := a.users != nil
		if err := a.openUsers(false); err != nil {
			return false, err
		}
		if had != (a.users != nil) {
			return false, nil // another command may just have started this one
		}
		a.foreign, err = a.isForeign()
		return err == nil, err
	case state != daemonAbsent && state != daemonForeign:
	case a.foreign:
		a.waitFor("it no longer listens there: start it again")
	case a.daemon == nil:
		return false, a.startAlone(ctx, state)
	}
	return false, nil
}

// isForeign reports whether a service manager or a user started the daemon. Then commands do not
// restart it: a second daemon could have another data directory. A daemon started by a command holds
// the start lock.
func (a *attachment) isForeign() (bool, error) {
	if a.daemon != nil {
		return false, nil
	}
	if a.users == nil {
		return true, nil
	}
	starting, err := openLock(a.Loaded.Config.DataDir, startFile, false)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	free, err := starting.try(syscall.LOCK_SH)
	return free, errors.Join(err, starting.close())
}

// openUsers opens the users' lock if it exists. A client that has no data directory, or may not read
// the directory, uses a daemon that somebody else started.
func (a *attachment) openUsers(create bool) (err error) {
	if a.users != nil || a.Loaded.Config.DataDir == "" {
		return nil
	}
	a.users, err = openLock(a.Loaded.Config.DataDir, usersFile, create)
	if !create && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)) {
		return nil
	}
	return err
}

func ownerOf(info os.FileInfo) (uid int, known bool) {
	st, known := info.Sys().(*syscall.Stat_t)
	if known {
		uid = int(st.Uid)
	}
	return uid, known
}

func isAbsent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) // for a socket
}

// startAlone starts a daemon unless another command is starting one. The address is free or another program's, as
// found says.
func (a *attachment) startAlone(ctx context.Context, found daemonState) error {
	listen := a.Loaded.Config.Listen
	if last := a.client.reach.address(); last != "" {
		listen = last // those who used the earlier daemon know no other address
	} else if found == daemonForeign {
		host, _, err := net.SplitHostPort(listen)
		if err != nil { // a socket has no other port
			return fmt.Errorf("%s: choose another address with --listen", a.client.reach.lacks(&unproved{}))
		}
		listen = net.JoinHostPort(host, "0")
	}
	if err := a.Loaded.RequireDataDir(); err != nil {
		return err
	}
	dir := a.Loaded.Config.DataDir
	if a.users == nil {
		if err := a.openUsers(true); err != nil {
			return fmt.Errorf("data_dir = %q: %w", dir, words.Unusable(err))
		}
		return nil // it is not locked yet
	}
	starting, err := openLock(dir, startFile, true)
	if err != nil {
		return fmt.Errorf("data_dir = %q: %w", dir, words.Unusable(err))
	}
	alone, err := starting.try(syscall.LOCK_EX)
	if err != nil || !alone {
		a.waitFor("another command has started the daemon of " + dir + ", which does not answer yet: its log is " + filepath.Join(dir, runLog))
		return errors.Join(err, starting.close())
	}
	// Another command may just have started the daemon.
	if state, err := a.probe(ctx); err != nil || state != found {
		return errors.Join(err, starting.close())
	}
	return errors.Join(a.start(ctx, starting, listen), starting.close())
}

// start starts a daemon in its own session, so that the terminal's signals do not reach it. The daemon
// may outlive the command, so it does not inherit the command's streams: a program that reads them to
// the end would also wait for the daemon. The daemon holds the start lock until it ends, so that no
// command starts another one meanwhile.
func (a *attachment) start(ctx context.Context, starting *fileLock, listen string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("%s cannot find its own program to start the daemon: %w", a.Name, err)
	}
	name := filepath.Join(a.Loaded.Config.DataDir, runLog)
	log, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC|syscall.O_NOFOLLOW, lockFileMode)
	if err != nil {
		return fmt.Errorf("data_dir = %q: %w", a.Loaded.Config.DataDir, words.Unusable(err))
	}
	defer log.Close() // the daemon has its own
	args := a.Serve
	if listen != a.Loaded.Config.Listen {
		args = append(slices.Clip(args), "--listen="+listen)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...) //nolint:gosec // botwired itself, with the flags of its caller
	cmd.Env, cmd.Stderr = service.Outside(a.Terminal.Environ), log
	cmd.ExtraFiles = []*os.File{starting.file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := a.reaper.start(cmd); err != nil {
		return fmt.Errorf("%s cannot start the daemon: %s", a.Name, words.Reason(err))
	}
	d := &ownDaemon{cmd, name, make(chan struct{})}
	go func() {
		defer close(d.exited)
		a.reaper.wait(cmd)
	}()
	a.daemon = d
	return nil
}

// why returns why the daemon ended: its last log line, or where its log is.
func (d *ownDaemon) why() string {
	text, err := os.ReadFile(d.log)
	at := bytes.LastIndex(text, []byte("\nbotwired: ")) + 1
	if said, ok := bytes.CutPrefix(text[at:], []byte("botwired: ")); err == nil && ok {
		line, _, _ := bytes.Cut(said, []byte("\n"))
		return string(line)
	}
	return fmt.Sprintf("%s; its log is %s", d.cmd.ProcessState, d.log)
}

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
	if n := result.Unanswered; n > 0 {
		which := words.ByNumber(n, "it", "them")
		if n != result.Pending {
			which = fmt.Sprintf("%d of them", n)
		}
		why += fmt.Sprintf("; upstream has not answered an earlier request for %s, and may still carry it out: the next start sends %s when that is over, after %s at most",
			which, which, a.Loaded.Config.Upstream.LateWindow)
	}
	text := ""
	if n := result.Pending; n > 0 {
		text = fmt.Sprintf("botwired: %s on this disk and %s to %s with the next start of botwired%s\n",
			areWrites(n), words.ByNumber(n, "goes", "go"), upstream, why)
	}
	if result.Dead > 0 {
		text += fmt.Sprintf("botwired: upstream has refused %s for good, or another host has written later: once botwired runs, \"botwired dead-letters\" and \"botwired history --lost\" have %s\n",
			words.Plural(result.Dead, "write"), words.ByNumber(result.Dead, "it", "them"))
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
			areWrites(n), a.client.Listen, words.ByNumber(n, "it", "them"))
	}
	return ""
}

func areWrites(n int) string { return words.Plural(n, "write") + words.ByNumber(n, " is", " are") }

// status returns the daemon's status, or nil if it does not answer.
func (a *attachment) status(ctx context.Context) *api.Status {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	s, _ := a.client.Status(ctx) // nil with an error
	return s
}
