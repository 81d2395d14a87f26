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
func New(o Options, next http.Handler) *Guard {
	hostname, _ := os.Hostname() // a machine without one has no such name to accept
	return &Guard{
		hosts:   newHosts(o.Hosts, hostname, o.AnyHost),
		origins: newOrigins(o.Origins),
		token:   newToken(o.Token, o.TokenExempt),
		next:    next,
	}
}

// Guard is a handler that lets through to another what may pass.
type Guard struct {
	hosts   hosts
	origins origins
	token   token
	next    http.Handler
}

// refusal is what a request is refused with; the empty one lets it pass.
type refusal string

func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	decision, detail := g.judge(r)
	switch decision {
	case pass:
		g.next.ServeHTTP(w, r)
	case preflight:
		answerPreflight(w)
	case forbid:
		refuse(w, http.StatusForbidden, detail)
	case wantToken:
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "This listener wants its token: Authorization: Bearer <token>.")
	}
}

// Admits reports whether ServeHTTP would pass on a request, even if its path were not
// exempt from the token: so it would pass on any with the same headers that came by the
// same connection.
func (g *Guard) Admits(r *http.Request) bool {
	decision, _ := g.judge(r)
	return decision == pass && g.token.shown(r)
}

// decision is what is done with a request.
type decision uint8

const (
	pass decision = iota
	preflight
	forbid // for a reason
	wantToken
)

func (g *Guard) judge(r *http.Request) (decision, refusal) {
	host, ok := splitHost(r.Host)
	if !ok || !g.hosts.accept(host.name, r) {
		return forbid, g.hosts.refusal(r)
	}
	from := g.provenance(host, r)
	if detail := crossSite(from, r); detail != "" {
		return forbid, detail
	}
	if isPreflight(from, r) {
		return preflight, ""
	}
	if !g.token.accept(r) {
		return wantToken, ""
	}
	return pass, ""
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
