package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// token checks the bearer token. It compares digests, in constant time, so that the time that a check
// takes shows neither the token's bytes nor its length.
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

// shown reports whether the request has the token, or there is none.
func (t token) shown(r *http.Request) bool {
	if !t.required {
		return true
	}
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	scheme, credentials, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	given := sha256.Sum256([]byte(strings.TrimLeft(credentials, " ")))
	return subtle.ConstantTimeCompare(given[:], t.digest[:]) == 1
}
