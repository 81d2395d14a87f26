package config

import (
	"net/url"
	"strings"
)

// Identity identifies an upstream. It is the URL in canonical form, so all spellings of a URL have the
// same identity. A data directory is bound to its upstream's identity. A NATS cluster's identity is its
// bucket's name, as nats:BUCKET, because servers come and go. The engine's mark detects another bucket
// with the same name.
func (u *Upstream) Identity() string {
	//exhaustive:enforce
	switch u.Kind() {
	case KindNATS:
		return bucketPrefix + u.NATS.Bucket
	case KindBotWire, KindEmbedded:
	}
	return identity(u.URL)
}

// ParseIdentity returns the identity for text: a URL as in the setting upstream.url, or an identity. ok
// is false for any other text, and for NATS servers, whose URL is not an identity.
func ParseIdentity(text string) (id string, ok bool) {
	if isBucketIdentity(text) {
		return text, true
	}
	url, err := parseUpstream(text)
	u := Upstream{URL: url}
	return identity(url), err == nil && u.Kind() != KindNATS
}

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
