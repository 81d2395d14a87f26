package guard

import (
	"net/http"
	"strings"
)

// provenance is where a request comes from, as far as its Origin tells.
type provenance uint8

const (
	unstated provenance = iota // no Origin: not a page, or a plain navigation or read
	own                        // a page of the listener itself
	listed                     // one of Options.Origins
	foreign
)

func (g *guard) provenance(host hostPort, r *http.Request) provenance {
	values := r.Header.Values("Origin")
	switch {
	case len(values) == 0:
		return unstated
	case len(values) > 1:
		return foreign
	}
	o, ok := parseOrigin(values[0])
	switch {
	case !ok:
		return foreign
	case g.origins[o]:
		return listed
	case g.isOwn(o, host, r):
		return own
	}
	return foreign
}

// isOwn reports whether o names the listener: by the name in Host when every Host is accepted, by any
// accepted name otherwise, and always with the port in Host.
func (g *guard) isOwn(o origin, host hostPort, r *http.Request) bool {
	if o.port != effectivePort(o.scheme, host.port) {
		return false
	}
	if g.hosts.any {
		return o.name == host.name
	}
	return g.hosts.accept(o.name, r)
}

// crossSite says why a request from there is refused, if it is.
func (g *guard) crossSite(from provenance, r *http.Request) refusal {
	if from == listed {
		return ""
	}
	if from == foreign && !g.lenient {
		return "Requests from pages of another origin are refused. The Origin is neither this listener's own nor an allowed one."
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return "Requests from pages of another site are refused (Sec-Fetch-Site is neither same-origin nor none)."
		}
	}
	return ""
}

// isPreflight reports whether the request is a CORS preflight that the guard answers itself.
func (g *guard) isPreflight(from provenance, r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header.Values("Access-Control-Request-Method")) > 0 &&
		(from == listed || g.lenient && from != unstated)
}

// origin is a scheme, a host in normal form and a port that is always given.
type origin struct {
	scheme string
	hostPort
}

// parseOrigin reads an http or https origin; "null" and all else is none.
func parseOrigin(s string) (origin, bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return origin{}, false
	}
	host, ok := splitHost(rest)
	host.port = effectivePort(scheme, host.port)
	return origin{scheme, host}, ok
}

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

// newOrigins keeps what is an origin; anything else could never be matched.
func newOrigins(list []string) origins {
	set := make(origins)
	for _, s := range list {
		if o, ok := parseOrigin(strings.TrimSuffix(s, "/")); ok {
			set[o] = true
		}
	}
	return set
}
