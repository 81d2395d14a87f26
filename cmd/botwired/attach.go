package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/botwired/botwired/config"
)

const (
	// attachPause is the pause between two looks for a daemon.
	attachPause = 50 * time.Millisecond
	// attachSilence is how long a command waits for a daemon before it says so.
	attachSilence = 2 * time.Second
	// cutsAllowed bounds how often in a row a connection may be cut: a daemon that ends does
	// that once, another program may do it for ever.
	cutsAllowed = 20
)

// look is a command's look for the daemon of its configuration.
type look struct {
	name    string // of the command, for messages, such as "botwired run"
	loaded  *config.Loaded
	client  *client
	waiting func(reason string) // is told why the command waits, once it has waited for long

	began  time.Time
	reason string // why the command waits
	said   string // the reason that waiting was told last
	cuts   int    // connections cut in a row
}

// newLook loads a command's configuration.
func newLook(p *process, name string, settings *settingFlags) (look, error) {
	loaded, err := settings.load(nil)
	if err != nil {
		return look{}, err
	}
	c, err := newClient(loaded)
	if err != nil {
		return look{}, err
	}
	return look{name: name, loaded: loaded, client: c, waiting: func(reason string) {
		p.say("botwired: waiting for the daemon: " + printable(reason) + "\n")
	}}, nil
}

// begin begins to wait anew.
func (l *look) begin() { l.began, l.reason, l.said, l.cuts = time.Now(), "", "", 0 }

// checkPort refuses an address that nobody but the daemon itself knows.
func (l *look) checkPort() error {
	if _, ok := l.loaded.Config.Socket(); ok {
		return nil
	}
	if _, port, err := net.SplitHostPort(l.loaded.Config.Listen); err != nil || strings.Trim(port, "0") == "" {
		return fmt.Errorf("listen = %q (%s): %s needs an address with a port, such as 127.0.0.1:2689",
			l.loaded.Config.Listen, l.loaded.Source("listen"), l.name)
	}
	return nil
}

type daemonState int

const (
	daemonReady daemonState = iota
	daemonAbsent
	daemonNotReady
)

// probe looks what is at the address. It fails if that is not botwired, or does not let the
// command in.
func (l *look) probe(ctx context.Context) (daemonState, error) {
	_, err := l.client.do(ctx, request{method: http.MethodGet, path: surface("readyz")})
	var body []byte
	if err == nil {
		body, err = l.client.do(ctx, request{method: http.MethodGet, path: surface("status")})
	}
	var refused *statusError
	switch {
	case err == nil:
		s, err := readStatus(l.client, body)
		if err == nil {
			err = l.checkUpstream(string(s.Upstream.URL))
		}
		return daemonReady, err
	case isAbsent(err):
		return daemonAbsent, nil
	case errors.As(err, &refused) && refused.status == http.StatusServiceUnavailable && strings.HasPrefix(refused.detail(), notReady):
		l.waitFor(refused.detail())
		return daemonNotReady, nil
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		if l.cuts++; l.cuts <= cutsAllowed {
			return daemonNotReady, nil
		}
	}
	return daemonNotReady, err
}

// checkUpstream refuses a daemon that has another upstream than the caller has set: it would
// carry the writes of a test to the real memory, or those of an agent to a test's. A caller who
// has not set upstream.url takes the daemon as it is.
func (l *look) checkUpstream(has string) error {
	want, source := l.loaded.Config.Upstream.URL, l.loaded.Source("upstream.url")
	if source.Layer == config.FromDefault || has == want {
		return nil
	}
	return fmt.Errorf("upstream.url = %q (%s): the daemon at %s carries writes to %s: stop it, or choose another address with --listen, and another data_dir",
		want, source, l.client.listen, printable(has))
}

// waitFor notes why the command waits, and tells it once that has lasted.
func (l *look) waitFor(reason string) {
	l.reason = reason
	if time.Since(l.began) < attachSilence || l.said == reason {
		return
	}
	l.said = reason
	l.waiting(reason)
}
