package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli/term"
)

const (
	attachPause = 50 * time.Millisecond
	// attachSilence is how long a command waits for a daemon before it says so.
	attachSilence = 2 * time.Second
	// cutsAllowed limits how many connections in a row may be cut: an ending daemon cuts once, but
	// another program may cut every one.
	cutsAllowed = 20
)

// Options configures how a program uses a daemon.
type Options struct {
	Name    string // the program's name in messages, such as "botwired run"
	Loaded  *config.Loaded
	Version string // the program's
	// Serve holds the arguments that make this program run as a daemon that ends with its last user.
	Serve    []string
	Terminal *term.Terminal
	Ignored  []os.Signal // signals ignored when this process started
	// Waiting is called with the reason when the program has waited for a while.
	Waiting func(reason string)
	// Elsewhere, if not nil, is called once if this account's daemon is at another address than the configured one.
	Elsewhere func(text string)
}

// look is a program's search for its configuration's daemon.
type look struct {
	Options
	client *Client

	began time.Time
	said  string // the last reason given to Waiting
	cuts  int    // connections cut in a row
}

func newAttachment(o Options) (*attachment, error) {
	client, err := connect(o.Loaded, o.Version, o.Elsewhere, false)
	return &attachment{look: look{Options: o, client: client}}, err
}

func (l *look) begin() { l.began, l.said, l.cuts = time.Now(), "", 0 }

// checkPort rejects an address without a fixed port: only the daemon itself would know it.
func (l *look) checkPort() error {
	if _, ok := l.Loaded.Config.Socket(); ok {
		return nil
	}
	if _, port, err := net.SplitHostPort(l.Loaded.Config.Listen); err != nil || strings.Trim(port, "0") == "" {
		return fmt.Errorf("listen = %q (%s): %s needs an address with a port, such as 127.0.0.1:2689",
			l.Loaded.Config.Listen, l.Loaded.Source("listen"), l.Name)
	}
	return nil
}

type daemonState int

const (
	daemonReady daemonState = iota
	daemonAbsent
	daemonNotReady
	daemonForeign // another account's, or another program
)

// probe asks the program at the address for its state. A daemon whose journal is full is ready: reads go on. It
// fails if that daemon rejects the command's token, or has another upstream.
func (l *look) probe(ctx context.Context) (daemonState, error) {
	status, err := l.client.Status(ctx)
	switch {
	case err == nil && status.Stopping:
		l.waitFor("the daemon is stopping")
		return daemonNotReady, nil
	case err == nil:
		return daemonReady, l.checkUpstream(status.Upstream.URL)
	case isForeign(err):
		return daemonForeign, nil
	case isAbsent(err):
		return daemonAbsent, nil
	case isNotReady(err):
		l.waitFor(detailOf(err))
		return daemonNotReady, nil
	case isCut(err):
		if l.cuts++; l.cuts <= cutsAllowed {
			return daemonNotReady, nil
		}
		if isUnsent(err) { // it has not proved itself
			return daemonForeign, nil
		}
	}
	return daemonNotReady, err
}

// checkUpstream rejects a daemon whose upstream is not the one the caller set: that daemon would send a
// test's writes to the real memory, or an agent's writes to a test's. A caller that has not set
// upstream.url accepts any daemon.
func (l *look) checkUpstream(has string) error {
	want, source := l.Loaded.Config.Upstream.URL, l.Loaded.Source("upstream.url")
	if source.Layer == config.FromDefault || has == want {
		return nil
	}
	return fmt.Errorf("upstream.url = %q (%s): the daemon at %s carries writes to %s: stop it, or choose another address with --listen, and another data_dir",
		want, source, l.client.Listen, term.Printable(has))
}

func isNotReady(err error) bool {
	return api.IsRefused(err, http.StatusServiceUnavailable) && strings.HasPrefix(detailOf(err), api.NotReady)
}

// detailOf returns the detail of a daemon's refusal, or "" for any other error.
func detailOf(err error) string {
	if refused, ok := errors.AsType[*api.Refused](err); ok {
		return refused.Detail()
	}
	return ""
}

// waitFor records why the command waits, and tells the user after attachSilence.
func (l *look) waitFor(reason string) {
	if time.Since(l.began) < attachSilence || l.said == reason {
		return
	}
	l.said = reason
	l.Waiting(reason)
}
