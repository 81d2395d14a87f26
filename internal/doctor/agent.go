package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/listen"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
)

// pathOf returns the path of an agent's URL, without the agent's name.
func pathOf(u *url.URL) string {
	_, path, _ := wire.CutAuthor(u.EscapedPath())
	return path
}

// agentURL checks that a program started in this shell would use the daemon.
func (e *examination) agentURL(ctx context.Context) Finding {
	const name = "BOTWIRE_URL"
	c := &e.loaded.Config
	if _, ok := c.Socket(); ok {
		return warn(name, "export BOTWIRED_LISTEN=127.0.0.1:2689", "listen is a socket, and BotWire's SDKs do not connect to one")
	}
	given, right := e.env("BOTWIRE_URL"), e.exportURL()
	if given == "" {
		return warn(name, right, "not set in this shell: an agent that you start here asks https://botwire.dev directly")
	}
	u, err := url.Parse(given)
	if err != nil || u.Hostname() == "" {
		return fail(name, right, "it is no URL")
	}
	shown := u.Scheme + "://" + u.Host + u.Path // without a token
	switch {
	case u.Scheme != "http":
		return fail(name, right, "%s: the daemon speaks plain HTTP", shown)
	case strings.Trim(pathOf(u), "/") != "" || u.RawQuery != "":
		return fail(name, right, "%s has more than an address, and the daemon serves at the root", shown)
	}
	if leads, err := e.leadsToDaemon(ctx, u); err != nil || !leads {
		return fail(name, right, "%s leads elsewhere: the daemon listens at %s", shown, c.Listen)
	}
	token, err := c.Token()
	given, _ = u.User.Password()
	switch {
	case err == nil && token != "" && given == "":
		return fail(name, right, "%s has no token, and the daemon wants one", shown)
	case err == nil && token != "" && given != token:
		return fail(name, right, "%s has another token than the daemon wants", shown)
	}
	return good(name, "%s is the daemon's address", shown)
}

func (e *examination) exportURL() string {
	token, err := e.loaded.Config.Token()
	if err != nil {
		token = "" // the check of the token file reports this
	}
	return attach.ExportLine(&e.loaded.Config, e.loaded.Config.Listen, token)
}

func (e *examination) leadsToDaemon(ctx context.Context, u *url.URL) (bool, error) {
	host, port, err := net.SplitHostPort(e.loaded.Config.Listen)
	if err != nil || listen.PortOf(u) != port {
		return false, err
	}
	if host == "" {
		host = "::"
	}
	listeners, err := e.resolve(ctx, host)
	if err != nil {
		return false, err
	}
	addresses, err := e.resolve(ctx, u.Hostname())
	interfaces := listen.InterfaceAddresses()
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		return slices.ContainsFunc(listeners, func(l netip.Addr) bool { return listen.Reaches(a, l, interfaces) })
	}), err
}

func lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, listen.ResolveTimeout)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// callersRecent is how old the last request may be before doctor warns.
const callersRecent = time.Hour

// callers checks that agents use the memory API. botwired's own commands do not count.
func (e *examination) callers(s *api.Status) Finding {
	const name = "callers"
	agents := slices.DeleteFunc(slices.Clone(s.Callers), func(c api.Caller) bool { return strings.HasPrefix(c.Agent, attach.AgentPrefix) })
	if len(agents) == 0 {
		return warn(name, e.exportURL(), "no agent has asked the daemon for memory since it was started: restart yours with")
	}
	newest := slices.MaxFunc(agents, func(a, b api.Caller) int { return a.LastAt.Compare(b.LastAt) })
	text := fmt.Sprintf("%s, the last one %s %s", words.Plural(len(agents), "program"), cmp.Or(newest.Agent, "without a name"), term.Ago(e.reader, newest.LastAt))
	if e.now().Sub(newest.LastAt) > callersRecent {
		return warn(name, e.exportURL(), "%s: no agent has asked since; if yours is at work, restart it with", text)
	}
	return good(name, "%s", text)
}
