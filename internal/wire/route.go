// Package wire is BotWire's memory API on the wire: it routes paths, checks bodies and limits, and makes
// every answer, byte for byte. The proxy and the self-hosted server share it, so that a client cannot tell
// either from BotWire.
//
// The checks come in BotWire's order: routing (404, 405, 307), then the body (422, or 400 if it cannot be
// decoded), then the namespace, the key and the size (400 each). A list checks its limit (422) before its
// namespace. A failed check returns a [Refusal], which holds the complete answer.
//
// The package differs from BotWire on purpose in three places. It refuses a namespace or key that ends in a
// newline. It refuses a value that is not valid Unicode, where BotWire crashes. The echo of a refused body is
// its own text without white space, or null if JSON cannot carry it (NaN, an infinity); BotWire prints it anew.
//
// The package imports nothing of the project. Everything in it is safe for concurrent use.
package wire

import (
	"net/http"
	"strings"
)

// Kind is the kind of a route.
type Kind uint8

const (
	// Other is a path outside BotWire's memory API.
	Other Kind = iota
	// EntryRoute is /memory/{namespace}/{key}: GET, PUT and DELETE.
	EntryRoute
	// ListRoute is /memory/{namespace}: GET.
	ListRoute
	// Missing is a path under /memory without a route: 404 {"detail":"Not Found"}.
	Missing
	// Redirect is a route with trailing slashes: 307 to [RedirectLocation], for every method.
	Redirect
)

// Route is the route of a path. Namespace and Key are not checked yet. Only an EntryRoute has a Key.
type Route struct {
	Kind           Kind
	Namespace, Key string
}

// ParseRoute classifies a percent-decoded path. BotWire matches after decoding: an escaped slash separates,
// and an escaped letter is the letter. No path is ever cleaned, so ".." is a key.
func ParseRoute(path string) Route {
	rest, under := cutMemory(path)
	if !under {
		if collapsed := "/" + strings.TrimLeft(path, "/"); strings.HasPrefix(path, "//") {
			_, under = cutMemory(collapsed)
		}
		if under {
			return Route{Kind: Missing}
		}
		return Route{Kind: Other}
	}
	if route := match(rest); route.Kind != Missing {
		return route
	}
	if trimmed := strings.TrimRight(rest, "/"); trimmed != rest && match(trimmed).Kind != Missing {
		return Route{Kind: Redirect}
	}
	return Route{Kind: Missing}
}

// cutMemory returns the rest of a path after /memory, and whether the path is /memory or below it.
func cutMemory(path string) (rest string, under bool) {
	rest, ok := strings.CutPrefix(path, "/memory")
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return rest, true
}

func match(rest string) Route {
	if rest == "" {
		return Route{Kind: Missing}
	}
	ns, key, both := strings.Cut(rest[1:], "/")
	switch {
	case ns == "":
		return Route{Kind: Missing}
	case !both:
		return Route{Kind: ListRoute, Namespace: ns}
	case key == "" || strings.Contains(key, "/"):
		return Route{Kind: Missing}
	}
	return Route{Kind: EntryRoute, Namespace: ns, Key: key}
}

// RedirectLocation returns the absolute Location that BotWire gives a [Redirect]: http, the request's
// Host, the decoded path without its trailing slashes, and the query.
func RedirectLocation(r *http.Request) string {
	path := strings.ToValidUTF8(strings.TrimRight(r.URL.Path, "/"), "\uFFFD")
	location := appendQuoted(nil, "http://"+r.Host+path)
	if r.URL.RawQuery != "" {
		location = appendQuoted(append(location, '?'), r.URL.RawQuery)
	}
	return string(location)
}

// unquoted lists the bytes besides letters and digits that BotWire does not escape in a Location.
const unquoted = "_.-~:/%#?=@[]!$&'()*+,;"

func appendQuoted(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if isAlphanumeric(c) || strings.IndexByte(unquoted, c) >= 0 {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}
