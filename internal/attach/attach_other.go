//go:build !unix || aix || solaris

package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// attachment is a command's use of a daemon. This platform lacks the necessary locks, so no command
// starts a daemon.
type attachment struct {
	look
}

// attach returns when a daemon is ready. The first call fails if there is none. Later calls, when the
// daemon is gone, wait until it is back.
func (a *attachment) attach(ctx context.Context, _ <-chan os.Signal) error {
	again := !a.began.IsZero()
	a.begin()
	for {
		switch state, err := a.probe(ctx); {
		case err != nil || state == daemonReady:
			return err
		case state == daemonAbsent && !again:
			return fmt.Errorf("nobody listens at %s, and %s starts no daemon on this platform: start botwired serve first", a.client.Listen, a.Name)
		case state == daemonForeign && !again:
			return fmt.Errorf("%s, and %s starts no daemon on this platform: start botwired serve at another address first, and choose it with --listen",
				a.client.reach.lacks(&unproved{}), a.Name)
		case state == daemonAbsent || state == daemonForeign:
			a.waitFor("nobody listens there any more: start the daemon again")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(attachPause):
		}
	}
}

// endAlone does nothing: this command did not start the daemon.
func (a *attachment) endAlone(context.Context) (said string, ended bool) { return "", false }

// ownerOf returns false: nobody knows.
func ownerOf(os.FileInfo) (uid int, known bool) { return 0, false }

func isAbsent(err error) bool { return isUnsent(err) }

const (
	lockFileMode = 0o600
	dirMode      = 0o700
)

// errNoRun says what to do on a platform without "botwired run".
var errNoRun = errors.New("this platform lacks the file locks and signals that botwired run needs: " +
	"start botwired serve, and set BOTWIRE_URL yourself")

// UntilUnused always fails on this platform.
func UntilUnused(context.Context, string, string, *slog.Logger) (context.Context, func(Drained), func() error, error) {
	return nil, nil, nil, errNoRun
}

// Run always fails on this platform.
func Run(context.Context, Options, []string) error { return errNoRun }

// Drained counts what a daemon drained at its end.
type Drained struct{ Settled, Dead, Pending, Unanswered int }
