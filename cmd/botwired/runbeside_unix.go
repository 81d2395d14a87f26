//go:build unix && !aix && !solaris

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/botwired/botwired/config"
)

const (
	// attachPause is the pause between two looks for a daemon.
	attachPause = 50 * time.Millisecond
	// attachSilence is how long run waits for a daemon before it says so.
	attachSilence = 2 * time.Second
	// cutsAllowed bounds how often in a row a connection may be cut: a daemon that ends does
	// that once, another program may do it for ever.
	cutsAllowed = 20
)

// beside is one life of "botwired run": a command, and the daemon that it uses.
type beside struct {
	process  *process
	settings *settingFlags
	loaded   *config.Loaded
	client   *client
	signals  *signals
	users    *fileLock // shared while the daemon is used; nil if nobody has started one for this data directory
	daemon   *ownDaemon

	began time.Time
	ended time.Time // of the command
	said  string    // why run waits
	cuts  int       // connections cut in a row
}

// ownDaemon is the daemon that run has started.
type ownDaemon struct {
	cmd    *exec.Cmd
	log    string // its file
	exited chan struct{}
}

// exitedChannel is nil, which never delivers, for a daemon that run has not started.
func (d *ownDaemon) exitedChannel() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.exited
}

// runBeside runs a command beside a daemon. Its error has the command's exit code.
func (p *process) runBeside(ctx context.Context, settings *settingFlags, args []string) error {
	loaded, err := settings.load(nil)
	if err != nil {
		return err
	}
	b := &beside{process: p, settings: settings, loaded: loaded, began: time.Now()}
	if err := b.checkAddress(); err != nil {
		return err
	}
	path, err := findCommand(args[0])
	if err != nil {
		return err
	}
	if b.client, err = newClient(loaded); err != nil {
		return err
	}
	b.signals = catchSignals(p.ignored)
	if err := b.attach(ctx); err != nil {
		b.abandon()
		return err
	}
	status := b.command(context.WithoutCancel(ctx), path, args)
	b.finish(context.WithoutCancel(ctx))
	return status
}

// checkAddress refuses an address that no URL for an SDK can have.
func (b *beside) checkAddress() error {
	at := fmt.Sprintf("listen = %q (%s)", b.loaded.Config.Listen, b.loaded.Source("listen"))
	if _, ok := b.loaded.Config.Socket(); ok {
		return fmt.Errorf("%s: botwired run needs an address that goes into a URL, such as 127.0.0.1:2689: BotWire's SDKs do not connect to a socket", at)
	}
	if _, port, err := net.SplitHostPort(b.loaded.Config.Listen); err != nil || strings.Trim(port, "0") == "" {
		return fmt.Errorf("%s: botwired run needs an address with a port, such as 127.0.0.1:2689", at)
	}
	return nil
}

// attach returns when a daemon is ready, which it starts if there is none. As long as run
// holds the shared lock, no daemon of the data directory ends because it is not used. So
// run takes the lock first, and looks then.
func (b *beside) attach(ctx context.Context) error {
	for {
		attached, err := b.tryAttach(ctx)
		if attached || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return b.interrupted(syscall.SIGINT)
		case sig := <-b.signals.caught:
			if asksToEnd(sig) {
				return b.interrupted(sig)
			}
		case <-b.daemon.exitedChannel():
			return errors.New("the daemon that botwired run has started has ended before it was ready: " + b.daemon.why())
		case <-time.After(attachPause):
		}
	}
}

// interrupted is the end of a run whose command has not begun.
func (b *beside) interrupted(sig os.Signal) error {
	select {
	case sig = <-b.signals.caught: // the one that has canceled the context
	default:
	}
	return &exitStatus{signalStatus(sig), errors.New("interrupted")}
}

func (b *beside) tryAttach(ctx context.Context) (attached bool, err error) {
	if err := b.openUsers(false); err != nil {
		return false, err
	}
	if b.users != nil {
		if free, err := b.users.try(syscall.LOCK_SH); err != nil || !free {
			b.waitFor("the daemon of " + b.loaded.Config.DataDir + " is stopping")
			return false, err
		}
	}
	switch state, err := b.probe(ctx); {
	case err != nil:
		return false, err
	case state == daemonReady:
		had := b.users != nil
		if err := b.openUsers(false); err != nil {
			return false, err
		}
		return had == (b.users != nil), nil // another run may just have started this one
	case state == daemonAbsent && b.daemon == nil:
		return false, b.startAlone(ctx)
	}
	return false, nil
}

// openUsers opens the lock of the daemon's users if it exists. A client without a data
// directory, or that may not look into it, uses a daemon that somebody else has started.
func (b *beside) openUsers(create bool) (err error) {
	if b.users != nil || b.loaded.Config.DataDir == "" {
		return nil
	}
	b.users, err = openLock(b.loaded.Config.DataDir, usersFile, create)
	if !create && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)) {
		return nil
	}
	return err
}

type daemonState int

const (
	daemonReady daemonState = iota
	daemonAbsent
	daemonNotReady
)

// probe looks what is at the address. It fails if that is not botwired, or does not let run
// in.
func (b *beside) probe(ctx context.Context) (daemonState, error) {
	_, err := b.client.do(ctx, request{method: http.MethodGet, path: surface("readyz")})
	var body []byte
	if err == nil {
		body, err = b.client.do(ctx, request{method: http.MethodGet, path: surface("status")})
	}
	var refused *statusError
	switch {
	case err == nil:
		s, err := readStatus(b.client, body)
		if err == nil {
			err = b.checkUpstream(string(s.Upstream.URL))
		}
		return daemonReady, err
	case errors.Is(err, syscall.ECONNREFUSED):
		return daemonAbsent, nil
	case errors.As(err, &refused) && refused.status == http.StatusServiceUnavailable && strings.HasPrefix(refused.detail(), "not ready"):
		b.waitFor(refused.detail())
		return daemonNotReady, nil
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		if b.cuts++; b.cuts <= cutsAllowed {
			return daemonNotReady, nil
		}
	}
	return daemonNotReady, err
}

// checkUpstream refuses a daemon that has another upstream than the caller has set: it would
// carry the writes of a test to the real memory, or those of an agent to a test's. A caller who
// has not set upstream.url takes the daemon as it is.
func (b *beside) checkUpstream(has string) error {
	want, source := b.loaded.Config.Upstream.URL, b.loaded.Source("upstream.url")
	if source.Layer == config.FromDefault || has == want {
		return nil
	}
	return fmt.Errorf("upstream.url = %q (%s): the daemon at %s carries writes to %s: stop it, or choose another address with --listen, and another data_dir",
		want, source, b.client.listen, printable(has))
}

// waitFor says why run waits, once it has waited for long.
func (b *beside) waitFor(reason string) {
	if time.Since(b.began) < attachSilence || b.said == reason {
		return
	}
	b.said = reason
	b.process.say("botwired: waiting for the daemon: " + printable(reason) + "\n")
}

// startAlone starts a daemon unless another run is about to.
func (b *beside) startAlone(ctx context.Context) error {
	if err := b.loaded.RequireDataDir(); err != nil {
		return err
	}
	dir := b.loaded.Config.DataDir
	if b.users == nil {
		if err := b.openUsers(true); err != nil {
			return fmt.Errorf("data_dir = %q: %w", dir, unusable(err))
		}
		return nil // it is not locked yet
	}
	starting, err := openLock(dir, startFile, true)
	if err != nil {
		return fmt.Errorf("data_dir = %q: %w", dir, unusable(err))
	}
	alone, err := starting.try(syscall.LOCK_EX)
	if err != nil || !alone {
		return errors.Join(err, starting.close())
	}
	// The one before may have just started it.
	if state, err := b.probe(ctx); err != nil || state != daemonAbsent {
		return errors.Join(err, starting.close())
	}
	if err := b.start(ctx); err != nil {
		return errors.Join(err, starting.close())
	}
	go b.daemon.wait(starting)
	return nil
}
