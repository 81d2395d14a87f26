package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

const (
	schemeNATS = "nats://"
	schemeTLS  = "tls://"
	// portNATS is the default port of a NATS server.
	portNATS = "4222"
	// maxBucket limits the name of a bucket, in bytes: the servers create a folder with this name.
	maxBucket = 64
	// maxReplicas is NATS' own limit.
	maxReplicas = 5
)

const serverList = "nats://host[:port],host[:port] (or tls://), without user and path"

// NATS says which bucket of a NATS cluster holds the memory, how botwired creates it, and how botwired
// signs in. It applies only if upstream is NATS.
type NATS struct {
	Bucket   string
	Replicas int    // of a bucket that botwired creates; from 1 to 5
	Create   bool   // create the bucket if it has never existed
	Context  string // the absolute path of a context's file, or ""; see [NATS.Access]
}

// Servers returns the URLs of the servers of [KindNATS].
func (u *Upstream) Servers() []string {
	scheme, hosts, _ := cutScheme(u.URL)
	servers := strings.Split(hosts, ",")
	for i, host := range servers {
		servers[i] = scheme + host
	}
	return servers
}

// DemandsTLS reports whether botwired connects to these servers only over TLS: if a URL asks for TLS,
// or a server is not on this machine.
func DemandsTLS(servers []string) bool {
	return slices.ContainsFunc(servers, func(server string) bool {
		u, err := url.Parse(server)
		return err != nil || u.Scheme != "nats" || !isLoopback(u.Hostname())
	})
}

// cutScheme splits a list of servers. ok is false for any other text.
func cutScheme(text string) (scheme, hosts string, ok bool) {
	for _, scheme := range []string{schemeNATS, schemeTLS} {
		if len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
			return scheme, text[len(scheme):], true
		}
	}
	return "", "", false
}

// parseServers parses a list of NATS servers. In the canonical form, each has its port.
func parseServers(text string) (string, error) {
	scheme, rest, ok := cutScheme(text)
	if !ok {
		return "", expect("%s", serverList)
	}
	if strings.Contains(text, "@") {
		return "", expect("%s: keep the user in a context of NATS, and name that with upstream.nats.context", serverList)
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

func isBucketName(s string) bool {
	return s != "" && len(s) <= maxBucket &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

func bucket(at func(*Config) *string) codec {
	return text(at, "text", "the name of a bucket: letters, digits, - and _, 64 at most", func(name string) (string, error) {
		if !isBucketName(name) {
			return "", errUnexpected
		}
		return name, nil
	})
}
