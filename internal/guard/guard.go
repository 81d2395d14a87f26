// Package guard decides who may talk to a listener. A web page anywhere can make its visitor's browser
// send requests to loopback, and a name that resolves to loopback makes them look same-origin. So every
// request must name the listener by one of the listener's own names, must not come from a foreign page,
// and must carry the token if there is one.
//
// A program may send a foreign Origin too. The guard lets such a request in if it carries none of the
// headers that browsers add to a page's requests and no page can remove. A request with any of them
// counts as a page's.
//
// The guard checks every method in this order: Host (403), Origin and Sec-Fetch-Site (403), a CORS
// preflight (200, without a CORS header, so that the browser goes no further), the token (401).
// A refused request gets {"detail": "…"}. No answer ever carries a CORS header. The package imports
// nothing of the project.
package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"strings"
)

// Options say whom the guard lets in. The zero value lets in requests to loopback names, to the address
// that the connection was made to and, off loopback, to this machine's hostname. Of pages, it lets in
// only the listener's own.
type Options struct {
	// Hosts are further names accepted in Host, without port.
	Hosts []string
	// Origins are accepted foreign origins, of any scheme: https://dash.example:8443,
	// chrome-extension://abcdefgh. The opaque origin "null" is never accepted, because any page can have it.
	Origins []string
	// Token, if not empty, must come as "Authorization: Bearer …", or as the password of
	// "Authorization: Basic …".
	Token string
	// TokenExempt, if not nil, reports whether a request needs no token.
	TokenExempt func(*http.Request) bool
	// Linked, if not nil, reports whether a link on another site may lead to a request: a GET that opens a
	// document in a tab and changes nothing. The other site cannot read the document. The request needs the
	// token like any other.
	Linked func(*http.Request) bool
	// AnyHost accepts every Host: for Unix sockets, which no web page can reach.
	AnyHost bool
}

// New puts the guard in front of next. It is safe for concurrent use if next is.
func New(o Options, next http.Handler) *Guard {
	hostname, _ := os.Hostname() // a machine without a hostname has no such name to accept
	return &Guard{
		hosts:   newHosts(o.Hosts, hostname, o.AnyHost),
		origins: newOrigins(o.Origins),
		token:   newToken(o.Token, o.TokenExempt),
		linked:  o.Linked,
		next:    next,
	}
}

// Guard is a handler that passes the requests that it accepts to another handler.
type Guard struct {
	hosts   hosts
	origins origins
	token   token
	linked  func(*http.Request) bool
	next    http.Handler
}

func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	decision, why := g.judge(r)
	switch decision {
	case pass:
		g.next.ServeHTTP(w, r)
	case preflight:
		answerPreflight(w)
	case forbid:
		refuse(w, http.StatusForbidden, why)
	case wantToken:
		w.Header()["Www-Authenticate"] = challenges
		refuse(w, http.StatusUnauthorized, "This listener wants its token: send Authorization: Bearer <token>, "+
			"or put it into the URL as the password, http://x:<token>@host:port.")
	}
}

// challenges are the values of WWW-Authenticate (RFC 9110, section 11.6.1), one field each.
// Clients that send a password only when asked (wget, curl --anyauth, Java, Python's urllib) look
// for Basic. It comes first, for clients that read only the first field. RFC 7617 and RFC 6750
// demand a parameter in each.
//
// A browser that is asked stores the password, and then adds it to the requests of other
// sites' pages too. It gives such a page nothing: the guard looks at Host, Origin and
// Sec-Fetch-Site before the token, and refuses the page's request with it and without. An old
// browser sends neither Origin nor Sec-Fetch-Site with a page's plain GET, of an image, say.
// That page cannot read the answer, as on a listener without a token.
var challenges = []string{`Basic realm="botwired"`, `Bearer realm="botwired"`}

// Admits reports whether ServeHTTP would pass on a request, even if its path were not exempt from the token.
// If so, it would pass on any request with the same headers on the same connection.
func (g *Guard) Admits(r *http.Request) bool {
	decision, _ := g.judge(r)
	return decision == pass && g.token.shown(r)
}

// decision says how the guard treats a request.
type decision uint8

const (
	pass decision = iota
	preflight
	forbid // it comes with a reason
	wantToken
)

func (g *Guard) judge(r *http.Request) (decision, reason) {
	host, ok := splitHost(r.Host)
	if !ok || !g.hosts.accept(host.name, r) {
		return forbid, g.hosts.unknownHost(r)
	}
	from := g.provenance(host, r)
	if why := crossSite(from, r); why != "" && !g.followsLink(from, r) {
		return forbid, why
	}
	if isPreflight(from, r) {
		return preflight, ""
	}
	if !g.token.accept(r) {
		return wantToken, ""
	}
	return pass, ""
}

func (g *Guard) provenance(host hostPort, r *http.Request) provenance {
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

// isOwn reports whether o is a web origin that names the listener. The port must be Host's. The name must be
// Host's if every Host is accepted; else any accepted name will do.
func (g *Guard) isOwn(o origin, host hostPort, r *http.Request) bool {
	if !isWeb(o.scheme) || o.port != effectivePort(o.scheme, host.port) {
		return false
	}
	if g.hosts.any {
		return o.name == host.name
	}
	return g.hosts.accept(o.name, r)
}

// followsLink reports whether a request from another site follows a link to a document that Options.Linked
// allows. A browser sends no Origin then; a form's POST has one.
func (g *Guard) followsLink(from provenance, r *http.Request) bool {
	return from == unstated && r.Method == http.MethodGet && g.linked != nil && g.linked(r)
}

func refuse(w http.ResponseWriter, status int, why reason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)                                 // no browser shows JSON as HTML, but people read it
	_ = enc.Encode(map[string]string{"detail": string(why)}) // strings always marshal
}

// answerPreflight answers as BotWire does, but without the headers that would allow anything.
func answerPreflight(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("OK"))
}

// token checks a request's token. It compares digests in constant time, so that the time shows neither the
// token's bytes nor its length.
type token struct {
	required bool
	digest   [sha256.Size]byte
	exempt   func(*http.Request) bool
}

func newToken(secret string, exempt func(*http.Request) bool) token {
	return token{required: secret != "", digest: sha256.Sum256([]byte(secret)), exempt: exempt}
}

func (t token) accept(r *http.Request) bool {
	return t.exempt != nil && t.exempt(r) || t.shown(r)
}

// shown reports whether the request carries the token, or none is required.
func (t token) shown(r *http.Request) bool {
	if !t.required {
		return true
	}
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	given := sha256.Sum256([]byte(credential(values[0])))
	return subtle.ConstantTimeCompare(given[:], t.digest[:]) == 1
}

// credential returns the token in an Authorization header; empty if there is none. HTTP clients turn the user
// and password of a URL into a Basic header (RFC 7617): the password is the token, and any user will do. So
// an SDK that cannot set headers can still send the token.
func credential(authorization string) string {
	scheme, credentials, _ := strings.Cut(authorization, " ")
	credentials = strings.TrimLeft(credentials, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return credentials
	case strings.EqualFold(scheme, "Basic"):
		pair, err := base64.StdEncoding.DecodeString(credentials)
		if err != nil {
			return ""
		}
		_, password, _ := strings.Cut(string(pair), ":")
		return password
	}
	return ""
}
