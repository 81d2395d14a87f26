package guard

import (
	"net/http"
	"strings"
)

type provenance uint8

const (
	unstated provenance = iota // no Origin: not a page, or a page's plain navigation or read
	own                        // a page of the listener itself
	listed                     // one of Options.Origins
	foreign
)

// crossSite returns why a request of that provenance is refused; empty if it is accepted.
func crossSite(from provenance, r *http.Request) reason {
	if from == listed {
		return ""
	}
	if from == foreign && fromBrowser(r) {
		return "Requests from pages of another origin are refused. The Origin is neither this listener's own nor one in the setting allowed_origins."
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return "Requests from pages of another site are refused (Sec-Fetch-Site is neither same-origin nor none)."
		}
	}
	return ""
}

// addedByBrowsers lists headers that no page can remove. Every fetch has Accept and Accept-Encoding, even
// preflights (Fetch standard, "HTTP-network-or-cache fetch" and "CORS-preflight fetch"). A WebSocket
// handshake has User-Agent too.
var addedByBrowsers = []string{
	"User-Agent", "Accept", "Accept-Encoding", "Accept-Language",
	"Referer", "Cookie", "DNT", "Upgrade-Insecure-Requests",
}

// fromBrowser reports whether the request has a header that a browser adds. Only browsers set names that
// begin with Sec- (Fetch standard, "forbidden request-header"). An empty header counts too, because a page
// can empty one.
func fromBrowser(r *http.Request) bool {
	for _, name := range addedByBrowsers {
		if len(r.Header.Values(name)) > 0 {
			return true
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Sec-") {
			return true
		}
	}
	return false
}

// isPreflight reports whether a request that passed crossSite is a CORS preflight, which [Guard] answers
// itself.
func isPreflight(from provenance, r *http.Request) bool {
	return from != unstated && r.Method == http.MethodOptions &&
		len(r.Header.Values("Access-Control-Request-Method")) > 0
}

// origin is a normalized origin: in lower case, and with a port if it is a web origin. In others, such as
// chrome-extension://abcdefgh, the name is everything after the scheme.
type origin struct {
	scheme string
	hostPort
}

// parseOrigin parses an origin. It refuses "null".
func parseOrigin(s string) (origin, bool) {
	scheme, rest, ok := strings.Cut(strings.ToLower(s), "://")
	if !ok || scheme == "" || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") != "" {
		return origin{}, false
	}
	if rest == "" || strings.ContainsAny(rest, "/@?#\\*, \t") {
		return origin{}, false
	}
	if !isWeb(scheme) {
		return origin{scheme, hostPort{name: rest}}, true
	}
	host, ok := splitHost(rest)
	host.port = effectivePort(scheme, host.port)
	return origin{scheme, host}, ok
}

func isWeb(scheme string) bool { return scheme == "http" || scheme == "https" }

func effectivePort(scheme, port string) string {
	switch {
	case port != "":
		return port
	case scheme == "https":
		return "443"
	}
	return "80"
}

type origins map[origin]bool

// newOrigins leaves out invalid origins: nothing could match them.
func newOrigins(list []string) origins {
	set := make(origins)
	for _, s := range list {
		if o, ok := parseOrigin(strings.TrimSuffix(s, "/")); ok {
			set[o] = true
		}
	}
	return set
}
