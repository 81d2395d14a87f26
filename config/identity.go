package config

import (
	"net/url"
	"strings"
)

// Identity tells one upstream from another: it is the URL in one spelling, so that all
// spellings of a URL have the same identity. A data directory is bound to it. The identity of a
// NATS cluster is its bucket's name, as nats:BUCKET: a cluster gets and loses servers. The
// engine's mark finds out that a bucket of the same name is another one.
func (u *Upstream) Identity() string {
	if u.Servers() != nil {
		return bucketPrefix + u.NATS.Bucket
	}
	return identity(u.URL)
}

// ParseIdentity returns the identity of the upstream that text names: a URL as the setting
// upstream.url has it, or an identity. ok is false for any other text, and for NATS servers, whose
// URL is no identity.
func ParseIdentity(text string) (id string, ok bool) {
	if isBucketIdentity(text) {
		return text, true
	}
	url, err := parseUpstream(text)
	u := Upstream{URL: url}
	return identity(url), err == nil && u.Servers() == nil
}

// isBucketIdentity reports whether text is the identity of a NATS cluster.
func isBucketIdentity(text string) bool {
	name, ok := strings.CutPrefix(text, bucketPrefix)
	return ok && isBucket(name)
}

func identity(text string) string {
	u, err := url.Parse(text)
	if err != nil || text == Embedded || text == "" || isBucketIdentity(text) {
		return text
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
}
