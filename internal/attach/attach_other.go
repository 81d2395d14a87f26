//go:build !unix || aix || solaris

package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"
)

// attachment is the use of a daemon by a command. On this platform, which lacks the locks for
// it, no command starts a daemon.
type attachment struct {
	look
}

func newAttachment(o Options) (*attachment, error) {
	l, err := newLook(o)
	return &attachment{look: l}, err
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
			return fmt.Errorf("nobody listens at %s, and %s starts no daemon on this platform: start botwired serve first", a.client.Listen, a.Name)
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

// isAbsent reports whether a connection failed because there is no daemon.
func isAbsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// errNoRun says what to do where the system lacks what "botwired run" needs.
var errNoRun = errors.New("this platform lacks the file locks and signals that botwired run needs: " +
	"start botwired serve, and set BOTWIRE_URL yourself")

// UntilUnused fails here.
func UntilUnused(context.Context, string, *slog.Logger) (context.Context, func(Drained), func() error, error) {
	return nil, nil, nil, errNoRun
}

// Run fails here.
func Run(context.Context, Options, []string) error { return errNoRun }

// Drained counts what a daemon has drained at its end.
type Drained struct{ Settled, Dead, Pending int }
