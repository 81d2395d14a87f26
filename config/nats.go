package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	schemeNATS = "nats://"
	schemeTLS  = "tls://"
	// portNATS is where a NATS server listens if nobody says otherwise.
	portNATS = "4222"
	// bucketPrefix begins the identity of a bucket: see [Upstream.Identity].
	bucketPrefix = "nats:"
	// maxBucket bounds the name of a bucket, in bytes: the servers make a folder of it.
	maxBucket = 64
	// maxReplicas and maxHistory are NATS' own bounds.
	maxReplicas = 5
	maxHistory  = 64
)

// serverList is what the error of a list of servers expects.
const serverList = "nats://host[:port],host[:port] (or tls://), without user and path"

// NATS says which bucket of a NATS cluster holds the memory, how botwired makes it, and how
// botwired signs in. It counts only where the memory is in NATS.
type NATS struct {
	Bucket        string
	Replicas      int           // of a bucket that botwired makes; from 1 to 5
	History       int           // versions of an entry, likewise; from 1 to 64
	Create        bool          // a missing bucket is made
	TombstonesFor time.Duration // 0 keeps them for ever

	CredentialsFile    string // absolute, as are the paths below, or ""
	User, PasswordFile string // both or none
	CAFile             string // the authorities that sign the servers' certificates; "" is the system's
	CertFile, KeyFile  string // both or none

	Monitors []string // URLs of the servers' monitoring, without a trailing slash
}

// Password reads the password of User; "" if there is none. Its error holds no part of it.
func (n *NATS) Password() (string, error) {
	if n.PasswordFile == "" {
		return "", nil
	}
	content, err := readFile(n.PasswordFile)
	password := strings.TrimRight(string(content), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("upstream.nats.password_file = %q: expected a readable file, which gives: %w", n.PasswordFile, err)
	case password == "":
		return "", fmt.Errorf("upstream.nats.password_file = %q: expected a file with a password in it; this one is empty", n.PasswordFile)
	}
	return password, nil
}

// Servers returns the URLs of the NATS servers that keep the memory; nil if upstream is no NATS.
func (u *Upstream) Servers() []string {
	scheme, hosts, ok := cutScheme(u.URL)
	if !ok {
		return nil
	}
	servers := strings.Split(hosts, ",")
	for i, host := range servers {
		servers[i] = scheme + host
	}
	return servers
}

// DemandsTLS reports whether botwired speaks to no such server without TLS: a server is asked for
// it by its URL, or is not on this machine.
func DemandsTLS(servers []string) bool {
	return slices.ContainsFunc(servers, func(server string) bool {
		u, err := url.Parse(server)
		return err != nil || u.Scheme != "nats" || !isLoopback(u.Hostname())
	})
}

// cutScheme splits a list of servers. ok is false of any other text.
func cutScheme(text string) (scheme, hosts string, ok bool) {
	for _, scheme := range []string{schemeNATS, schemeTLS} {
		if len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
			return scheme, text[len(scheme):], true
		}
	}
	return "", "", false
}

// ParseServers returns a list of NATS servers in its one spelling, as upstream.url has it. Its
// error completes "expected …".
func ParseServers(text string) (string, error) {
	scheme, rest, ok := cutScheme(text)
	if !ok {
		return "", expect("%s", serverList)
	}
	if strings.Contains(text, "@") {
		return "", expect("%s: name the user with upstream.nats.user and upstream.nats.password_file, or upstream.nats.credentials_file", serverList)
	}
	var hosts []string
	for part := range strings.SplitSeq(rest, ",") {
		part = strings.TrimSpace(part)
		if own, host, repeated := cutScheme(part); repeated {
			if own != scheme {
				return "", expect("one scheme for all servers: %s or %s", schemeNATS, schemeTLS)
			}
			part = host
		}
		host, ok := serverAddress(part)
		if !ok {
			return "", expect("%s", serverList)
		}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return scheme + strings.Join(hosts, ","), nil
}

// serverAddress returns a server's host and port in one spelling.
func serverAddress(text string) (string, bool) {
	u, err := url.Parse("nats://" + strings.TrimRight(text, "/"))
	if err != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(text, "?#") || strings.HasSuffix(u.Host, ":") {
		return "", false
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if _, err := netip.ParseAddr(host); err != nil && !isHostName(host) || port != "" && !isPort(port) {
		return "", false
	}
	if port == "" {
		port = portNATS
	}
	return net.JoinHostPort(host, port), true
}

// isBucket is NATS' rule for the name of a bucket.
func isBucket(s string) bool {
	return s != "" && len(s) <= maxBucket &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

func bucket(at func(*Config) *string) codec {
	return text(at, "the name of a bucket: letters, digits, - and _, 64 at most", isBucket)
}

// account accepts the name of a user. It may be a secret's neighbour, and is none.
func account(at func(*Config) *string) codec {
	return orNothing(at, text(at, "the name of a user, on one line", isHeaderValue))
}

// text accepts what fits.
func text(at func(*Config) *string, expected string, fits func(string) bool) codec {
	return codec{
		kind:     "text",
		expected: expected,
		print:    func(c *Config) string { return *at(c) },
		copy:     copies(at),
		parse: func(c *Config, v node, _ places) error {
			if v.kind != isText || !fits(v.text) {
				return unexpected()
			}
			*at(c) = v.text
			return nil
		},
	}
}

// monitorURL is where a server shows its figures. They are no secrets, and nothing that botwired
// decides hangs on them: plain http will do.
func monitorURL() element {
	return element{
		name: "URLs", example: "http://host1:8222",
		expected: "http(s)://host[:port][/base] without user, query or fragment",
		parse: func(s string) (string, bool) {
			u, err := url.Parse(s)
			if err != nil || !isPlainURL(u) || strings.ContainsAny(s, "?#") {
				return "", false
			}
			return strings.TrimRight(u.String(), "/"), true
		},
	}
}

// monitors accepts a list of such URLs. A rejected one may have a password in it.
func monitors(at func(*Config) *[]string) codec {
	c := list(monitorURL(), at)
	c.show = hideURLSecrets
	return c
}

func natsSettings() []Setting {
	return []Setting{
		{Name: "upstream.nats.bucket", Default: "botwire",
			Doc:   "with `nats://`, the key-value bucket that holds the memory",
			codec: bucket(func(c *Config) *string { return &c.Upstream.NATS.Bucket })},
		{Name: "upstream.nats.create", Default: "true",
			Doc:   "make the bucket if there is none",
			codec: truth(func(c *Config) *bool { return &c.Upstream.NATS.Create })},
		{Name: "upstream.nats.replicas", Default: "3",
			Doc:   "on how many servers a bucket lies that botwired makes; fewer than `3` lose the memory with one disk",
			codec: count(1, maxReplicas, func(c *Config) *int { return &c.Upstream.NATS.Replicas })},
		{Name: "upstream.nats.history", Default: "8",
			Doc:   "how many versions of an entry a bucket keeps that botwired makes",
			codec: count(1, maxHistory, func(c *Config) *int { return &c.Upstream.NATS.History })},
		{Name: "upstream.nats.tombstones_for", Default: "90d",
			Doc:   "how long a delete is remembered upstream, so that an older write of a host that was away does not undo it; `0`: for ever",
			codec: duration(zeroOrMore, func(c *Config) *time.Duration { return &c.Upstream.NATS.TombstonesFor })},
		{Name: "upstream.nats.credentials_file", Documented: "none",
			Doc:   "file with NATS credentials (a JWT and its key) by which botwired signs in",
			codec: file(func(c *Config) *string { return &c.Upstream.NATS.CredentialsFile })},
		{Name: "upstream.nats.user", Documented: "none",
			Doc:   "user as whom botwired signs in, with `upstream.nats.password_file`",
			codec: account(func(c *Config) *string { return &c.Upstream.NATS.User })},
		{Name: "upstream.nats.password_file", Documented: "none",
			Doc:   "file that holds the password of `upstream.nats.user`",
			codec: file(func(c *Config) *string { return &c.Upstream.NATS.PasswordFile })},
		{Name: "upstream.nats.ca_file", Documented: "the system's authorities",
			Doc:   "file with the authorities that sign the servers' certificates, in PEM",
			codec: file(func(c *Config) *string { return &c.Upstream.NATS.CAFile })},
		{Name: "upstream.nats.cert_file", Documented: "none",
			Doc:   "file with botwired's own certificate for the servers, in PEM",
			codec: file(func(c *Config) *string { return &c.Upstream.NATS.CertFile })},
		{Name: "upstream.nats.key_file", Documented: "none",
			Doc:   "file with the key of `upstream.nats.cert_file`, in PEM",
			codec: file(func(c *Config) *string { return &c.Upstream.NATS.KeyFile })},
		{Name: "upstream.nats.monitors", Default: "[]", Documented: "none",
			Doc:   "the servers' monitoring (`http_port` there), by which `botwired doctor` sees how they sync their disks; nothing else does",
			codec: monitors(func(c *Config) *[]string { return &c.Upstream.NATS.Monitors })},
	}
}

// validateNATS checks how botwired signs in to NATS, and that no setting is meant for BotWire.
func (l *loader) validateNATS() error {
	n := &l.config.Upstream.NATS
	switch {
	case n.CredentialsFile != "" && n.User != "":
		return l.refuse("upstream.nats.user", "nothing beside upstream.nats.credentials_file: botwired signs in as one of them")
	case n.User != "" && n.PasswordFile == "" && !l.isFaulty("upstream.nats.password_file"):
		return l.refuse("upstream.nats.user", "upstream.nats.password_file to be set as well")
	case n.PasswordFile != "" && n.User == "" && !l.isFaulty("upstream.nats.user"):
		return l.refuse("upstream.nats.password_file", "upstream.nats.user to be set as well")
	case n.CertFile != "" && n.KeyFile == "" && !l.isFaulty("upstream.nats.key_file"):
		return l.refuse("upstream.nats.cert_file", "upstream.nats.key_file to be set as well")
	case n.KeyFile != "" && n.CertFile == "" && !l.isFaulty("upstream.nats.cert_file"):
		return l.refuse("upstream.nats.key_file", "upstream.nats.cert_file to be set as well")
	case len(l.config.Upstream.Headers) > 0 && l.config.Upstream.Servers() != nil:
		return l.refuse("upstream.headers", "none where upstream.url is nats:// or tls://, which has no headers: sign in with upstream.nats.credentials_file or upstream.nats.user")
	}
	return nil
}
