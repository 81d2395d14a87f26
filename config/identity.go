package config

import (
	"net/url"
	"strings"
)

// Identity tells one upstream from another: it is the URL in one spelling, so that all
// spellings of a URL have the same identity. A data directory is bound to it.
func (u *Upstream) Identity() string { return identity(u.URL) }

// FormerIdentity returns the identity that upstream had before it moved, or "".
func (u *Upstream) FormerIdentity() string { return identity(u.MovedFrom) }

// ParseIdentity returns the identity of the upstream that text names, as the setting
// upstream.url would. ok is false if the setting would refuse the text.
func ParseIdentity(text string) (id string, ok bool) {
	var c Config
	err := upstreamURL(func(c *Config) *string { return &c.Upstream.URL }).parse(&c, node{text: text}, places{})
	return c.Upstream.Identity(), err == nil
}

func identity(text string) string {
	u, err := url.Parse(text)
	if err != nil || text == Embedded || text == "" {
		return text
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
}
