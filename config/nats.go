package config

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

const (
	schemeNATS = "nats://"
	schemeTLS  = "tls://"
	portNATS   = "4222"
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
	if !isHost(host) || port != "" && !isPort(port) {
		return "", false
	}
	if port == "" {
		port = portNATS
	}
	return net.JoinHostPort(host, port), true
}

func isBucketName(s string) bool {
	return s != "" && len(s) <= maxBucket && strings.Trim(s, namespaceChars) == ""
}

func bucket(at func(*Config) *string) codec {
	return text(at, "text", "the name of a bucket: letters, digits, - and _, 64 at most", func(name string) (string, error) {
		if !isBucketName(name) {
			return "", errUnexpected
		}
		return name, nil
	})
}

// Access holds the credentials from a context of NATS' own command line. Its paths are absolute, and
// all fields may be empty. botwired reads the file itself, because it only needs a few documented
// fields, and NATS' own package for contexts brings a whole nats-server with it.
type Access struct {
	Creds       string `json:"creds"` // a file with a user's JWT and key
	User        string `json:"user"`
	Password    string `json:"password"`
	Token       string `json:"token"`
	NKey        string `json:"nkey"` // a file with a user's key
	CA          string `json:"ca"`   // the CAs of the servers' certificates; "" means the system's
	Cert        string `json:"cert"` // botwired's own certificate and key
	Key         string `json:"key"`
	TLSFirst    bool   `json:"tls_first"`
	InboxPrefix string `json:"inbox_prefix"`
}

// botwired rejects these fields: they route the connection elsewhere, or sign in without a file.
var unsupportedInContext = []string{
	"nsc", "user_jwt", "user_seed", "socks_proxy", "jetstream_domain", "jetstream_api_prefix",
	"windows_cert_store", "windows_cert_match", "windows_cert_match_by", "windows_ca_certs_match",
}

// Access reads the context's file at each call. Without a context, it returns the zero Access. Its
// errors show no values from the file except paths.
func (n *NATS) Access() (a Access, err error) {
	if n.Context == "" {
		return a, nil
	}
	refuse := func(format string, args ...any) (Access, error) {
		return Access{}, fmt.Errorf("upstream.nats.context = %q: expected %s", n.Context, fmt.Sprintf(format, args...))
	}
	content, err := readFile(n.Context)
	if err != nil {
		return refuse("a readable file, which gives: %v", err)
	}
	var fields map[string]any
	if json.Unmarshal(content, &fields) != nil || fields == nil || json.Unmarshal(content, &a) != nil { // null is not a context
		return refuse("a context of NATS in JSON, such as \"nats context save\" writes")
	}
	for _, name := range unsupportedInContext {
		if !isUnset(fields[name]) {
			return refuse("no %s in it: botwired does not know that field of a context", name)
		}
	}
	for _, file := range []struct {
		field string
		path  *string
	}{{"creds", &a.Creds}, {"nkey", &a.NKey}, {"ca", &a.CA}, {"cert", &a.Cert}, {"key", &a.Key}} {
		*file.path = strings.TrimPrefix(*file.path, "file://")
		if *file.path != "" && !filepath.IsAbs(*file.path) {
			return refuse("the absolute path of a file as its %s", file.field)
		}
	}
	if (a.Cert == "") != (a.Key == "") {
		return refuse("a cert and its key in it, or neither")
	}
	return a, nil
}

func isUnset(field any) bool {
	switch v := field.(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	}
	return field == nil
}

// isContextName reports whether a value of upstream.nats.context is a context's name, not the path of
// its file.
func isContextName(value string) bool {
	return !strings.ContainsAny(value, `/\`) && !strings.HasPrefix(value, ".")
}

// natsContext accepts the name of a context, or the path of its file. The value is the path.
func natsContext(at func(*Config) *string) codec {
	return codecOf(at, "path", `the name of a NATS context, the path of its file, or "none"`, printFile, func(v node, p places) (string, error) {
		if v.kind == isText && v.text != "" && v.text != noFile && isContextName(v.text) {
			dir := p.xdg("XDG_CONFIG_HOME", ".config") // on all systems, as in NATS' command line
			if dir == "" {
				return "", expect("the path of a context's file, as there is no home directory to have contexts in")
			}
			v.text = filepath.Join(dir, "nats", "context", v.text+".json")
		}
		return p.pathOrNone(v)
	})
}
