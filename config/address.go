package config

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
)

const unixScheme = "unix://"

// maxSocketPath is the longest path of a Unix socket that every platform accepts, in bytes: macOS has
// room for 104 with a terminating zero.
const maxSocketPath = 103

func listenAddress(at func(*Config) *string) codec {
	return text(at, "address", "host:port, such as 127.0.0.1:2689, or unix:///absolute/path", func(address string) (string, error) {
		socket, isSocket := strings.CutPrefix(address, unixScheme)
		switch {
		case isSocket:
			return address, checkSocket(socket)
		case !isHostPort(address):
			return "", errUnexpected
		}
		return address, nil
	})
}

func checkSocket(socket string) error {
	if !path.IsAbs(socket) || strings.HasSuffix(socket, "/") || strings.ContainsRune(socket, 0) {
		return expect("unix:// and the absolute path of a socket, such as unix:///run/botwired.sock")
	}
	if len(socket) > maxSocketPath {
		return expect("a socket path of at most %d bytes", maxSocketPath)
	}
	return nil
}

func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && isPort(port) && (host == "" || isHost(host))
}

func isHost(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || isHostName(s)
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// Socket returns the path of the Unix socket to listen on. It returns false for TCP.
func (c *Config) Socket() (string, bool) { return strings.CutPrefix(c.Listen, unixScheme) }

// OnLoopback reports whether only this machine can reach the listener.
func (c *Config) OnLoopback() bool {
	if _, ok := c.Socket(); ok {
		return true
	}
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && isLoopback(host)
}

// isLoopback trusts no name except localhost: another name could resolve to any address later.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return strings.EqualFold(host, "localhost")
	}
	return addr.Unmap().IsLoopback()
}

func upstreamURL(at func(*Config) *string) codec {
	c := text(at, "url", urlForms(), parseUpstreamURL)
	c.show = hideURLSecrets
	return c
}

// parseUpstreamURL refuses the address of the memory API in place of its server's: botwired would ask for /memory/memory.
// An identity may end so: a directory keeps the one that it was bound to.
func parseUpstreamURL(text string) (string, error) {
	canonical, err := ParseUpstream(text)
	if err != nil {
		return "", err
	}
	if u, err := url.Parse(canonical); err == nil && strings.HasSuffix(u.Path, memoryPath) {
		return "", expect("the URL without %s, which botwired adds itself: %s", memoryPath, strings.TrimSuffix(canonical, memoryPath))
	}
	return canonical, nil
}

const memoryPath = "/memory"

func parseService(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || !isPlainURL(u) || strings.ContainsAny(text, "?#") {
		return "", errUnexpected
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return "", expect("https: plain http is for loopback addresses only")
	}
	u.Host = strings.ToLower(u.Host)
	if port := u.Port(); port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func parseEmbedded(text string) (string, error) {
	if text != Embedded {
		return "", errUnexpected
	}
	return text, nil
}

func isPlainURL(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.User != nil {
		return false
	}
	return isHost(u.Hostname()) && (u.Port() == "" && !strings.HasSuffix(u.Host, ":") || isPort(u.Port()))
}

// hideURLSecrets redacts the parts of a URL that may hold a password or token: everything before an @
// and everything in a query or fragment.
func hideURLSecrets(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i+1] + redacted
	}
	if i := strings.LastIndex(s, "@"); i >= 0 {
		scheme, _, found := strings.Cut(s[:i], "://")
		if found {
			scheme += "://"
		} else {
			scheme = ""
		}
		s = scheme + redacted + s[i:]
	}
	return s
}

// The limits of a namespace in BotWire's free tier, as documented.
const (
	freeWritesPerDay   = 1000
	freeNamespaceBytes = 50_000_000
)

// isBotWires reports whether upstream is BotWire's own service, which has quotas. Other services have
// none that botwired knows of. upstream is as [ParseUpstream] returns it.
func isBotWires(upstream string) bool {
	u, err := url.Parse(upstream)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	return host == "botwire.dev" || strings.HasSuffix(host, ".botwire.dev")
}

func hostName() element {
	return element{
		name: "host names", example: "botwired",
		expected: "a host name or an IP address without port",
		parse: func(s string) (string, bool) {
			if addr, err := netip.ParseAddr(s); err == nil {
				return addr.String(), true
			}
			return strings.ToLower(s), isHostName(s)
		},
	}
}

func originName() element {
	return element{
		name: "origins", example: "chrome-extension://abcdefgh",
		expected: `an origin: scheme://host[:port] without path, not "*" or "null"`,
		parse: func(s string) (string, bool) {
			s = strings.ToLower(s)
			u, err := url.Parse(s)
			if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != s || strings.Contains(s, "*") {
				return "", false
			}
			return s, true
		},
	}
}

// isHostName accepts DNS names, and service names in compose files and Kubernetes, which may contain
// underscores.
func isHostName(s string) bool {
	if s == "" || len(s) > 253 || s[0] == '.' || strings.Contains(s, "..") {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}
