package config

import (
	"net/url"
	"strings"
)

// Identity is what tells one upstream from another: its URL with everything left out
// that does not change which service it is. Two spellings of one URL have the same.
// A data directory is bound to it.
func (u *Upstream) Identity() string { return identity(u.URL) }

// FormerIdentity is the identity that upstream had before it moved, "" if it did not.
func (u *Upstream) FormerIdentity() string { return identity(u.MovedFrom) }

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
