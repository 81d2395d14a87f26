// Package guard decides who may talk to a listener. A web page anywhere can make its visitor's browser
// send requests to loopback, and a name that resolves to loopback makes them look same-origin; so every
// request must name the listener by a name that is the listener's own, must not come from a foreign
// page, and must carry the token when there is one.
//
// A program may send an Origin too, and a foreign one then says nothing of a page. It is answered if
// the request carries none of the headers that browsers add to a page's requests and let no page
// remove; a request with any of them is taken for a page's.
//
// Checks are made in this order, on every method: Host (403), Origin and Sec-Fetch-Site (403), a CORS
// preflight (200, without a CORS header, so that the browser goes no further), the bearer token (401).
// Refusals are {"detail": "…"}. No answer ever carries a CORS header. The package imports nothing of
// the project.
package guard

import (
	"encoding/json"
	"net/http"
	"os"
)

// Options say who is let in. The zero value lets in requests to loopback names, to the address a
// connection arrived on and, off loopback, to this machine's hostname, from no page but the listener's own.
type Options struct {
	// Hosts are further names accepted in Host, without port.
	Hosts []string
	// Origins are foreign origins accepted, of any scheme: https://dash.example:8443,
	// chrome-extension://abcdefgh. The opaque origin "null", which any page can have, is never one.
	Origins []string
	// Token must come as "Authorization: Bearer …" when it is not empty.
	Token string
	// TokenExempt, if not nil, says which requests need no token.
	TokenExempt func(*http.Request) bool
	// AnyHost accepts every Host: for Unix sockets, which no web page can reach.
	AnyHost bool
}

// New puts the guard in front of next. It is safe for concurrent use if next is.
func New(o Options, next http.Handler) http.Handler {
	hostname, _ := os.Hostname() // a machine without one has no such name to accept
	return &guard{
		hosts:   newHosts(o.Hosts, hostname, o.AnyHost),
		origins: newOrigins(o.Origins),
		token:   newToken(o.Token, o.TokenExempt),
		next:    next,
	}
}

type guard struct {
	hosts   hosts
	origins origins
	token   token
	next    http.Handler
}

// refusal is what a request is refused with; the empty one lets it pass.
type refusal string

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, ok := splitHost(r.Host)
	if !ok || !g.hosts.accept(host.name, r) {
		refuse(w, http.StatusForbidden, g.hosts.refusal(r))
		return
	}
	from := g.provenance(host, r)
	if detail := crossSite(from, r); detail != "" {
		refuse(w, http.StatusForbidden, detail)
		return
	}
	if isPreflight(from, r) {
		answerPreflight(w)
		return
	}
	if !g.token.accept(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "This listener wants its token: Authorization: Bearer <token>.")
		return
	}
	g.next.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, status int, detail refusal) {
	body, _ := json.Marshal(map[string]string{"detail": string(detail)}) // strings always marshal
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// answerPreflight answers as BotWire does, but for the headers that would allow anything.
func answerPreflight(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("OK"))
}
