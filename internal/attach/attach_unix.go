//go:build unix && !aix && !solaris

package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/botwired/botwired/internal/service"
	"github.com/botwired/botwired/internal/words"
)

// attachment is the use of a daemon by a command. The command starts a daemon if there is none,
// and that one goes on until nobody uses it.
type attachment struct {
	look
	users   *fileLock  // shared while the daemon is used; nil if nobody has started one for this data directory
	daemon  *ownDaemon // nil if the command has not started it
	foreign bool       // the daemon was started by neither this command nor another one that uses it
}

func newAttachment(o Options) (*attachment, error) {
	l, err := newLook(o)
	return &attachment{look: l}, err
}

// ownDaemon is the daemon that a command has started.
type ownDaemon struct {
	cmd    *exec.Cmd
	log    string // its file
	exited chan struct{}
}

// exitedChannel is nil, which never delivers, for a daemon that the command has not started.
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

// askedToEnd is the error of an attachment that a signal has ended.
type askedToEnd struct{ signal os.Signal }

func (a *askedToEnd) Error() string { return "interrupted" }

// attach returns when a daemon is ready, which it starts if there is none. As long as a command
// holds the shared lock, no daemon of the data directory ends because it is not used. So
// attach takes the lock first, and looks then. It may be called again once the daemon is gone.
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
				a.daemon = nil // it was ready once: another one follows
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
	case state == daemonAbsent && a.foreign:
		a.waitFor("nobody listens there any more: start the daemon again")
	case state == daemonAbsent && a.daemon == nil:
		return false, a.startAlone(ctx)
	}
	return false, nil
}

// isForeign reports whether the daemon belongs to a service manager or a person: it comes back
// by them alone, and a second one could have another data directory. A daemon that a command has
// started holds the lock of its start.
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

// openUsers opens the lock of the daemon's users if it exists. A client without a data
// directory, or that may not look into it, uses a daemon that somebody else has started.
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

// isAbsent reports whether a connection failed because there is no daemon.
func isAbsent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) // of a socket
}

// startAlone starts a daemon unless another command is about to.
func (a *attachment) startAlone(ctx context.Context) error {
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
		return errors.Join(err, starting.close())
	}
	// The one before may have just started it.
	if state, err := a.probe(ctx); err != nil || state != daemonAbsent {
		return errors.Join(err, starting.close())
	}
	return errors.Join(a.start(ctx, starting), starting.close())
}

// start starts a daemon in a session of its own: the signals of the terminal do not reach it. The daemon may
// outlive the command, so it does not inherit the command's streams: a program that reads them to their end
// would wait for the daemon, too. The daemon holds the lock of its start until it ends, so that no command
// starts another one before.
func (a *attachment) start(ctx context.Context, starting *fileLock) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("%s cannot find its own program to start the daemon: %w", a.Name, err)
	}
	name := filepath.Join(a.Loaded.Config.DataDir, runLog)
	log, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC|syscall.O_NOFOLLOW, lockFileMode)
	if err != nil {
		return fmt.Errorf("data_dir = %q: %w", a.Loaded.Config.DataDir, words.Unusable(err))
	}
	defer log.Close()                                                        // the daemon has its own
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, a.Serve...) //nolint:gosec // botwired itself, with the flags of its caller
	cmd.Env, cmd.Stderr = service.Outside(a.Terminal.Environ), log
	cmd.ExtraFiles = []*os.File{starting.file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s cannot start the daemon: %s", a.Name, words.Reason(err))
	}
	d := &ownDaemon{cmd, name, make(chan struct{})}
	go func() {
		defer close(d.exited)
		_ = cmd.Wait() // the outcome is in ProcessState
	}()
	a.daemon = d
	return nil
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
