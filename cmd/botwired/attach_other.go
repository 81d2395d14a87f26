//go:build !unix || aix || solaris

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// attachment is the use of a daemon by a command. On this platform, which lacks the locks for
// it, no command starts a daemon.
type attachment struct {
	look
	process *process
}

// newAttachment loads the configuration of a command, whose name is for messages, such as
// "botwired run".
func newAttachment(p *process, name string, settings *settingFlags) (*attachment, error) {
	l, err := newLook(p, name, settings)
	if err != nil {
		return nil, err
	}
	return &attachment{look: l, process: p}, nil
}

// attach returns when a daemon is ready. If there is none when it looks first, it fails; it may be
// called again once the daemon is gone, and waits then until that is back.
func (a *attachment) attach(ctx context.Context, _ <-chan os.Signal) error {
	again := !a.began.IsZero()
	a.begin()
	for {
		switch state, err := a.probe(ctx); {
		case err != nil || state == daemonReady:
			return err
		case state == daemonAbsent && !again:
			return fmt.Errorf("nobody listens at %s, and %s starts no daemon on this platform: start botwired serve first", a.client.listen, a.name)
		case state == daemonAbsent:
			a.waitFor("nobody listens there any more: start the daemon again")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(attachPause):
		}
	}
}

// endAlone does nothing: the daemon is somebody else's.
func (a *attachment) endAlone(context.Context) (said string, ended bool) { return "", false }

// abandon does nothing, as well.
func (a *attachment) abandon() {}

// isAbsent reports whether a connection failed because there is no daemon.
func isAbsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
