package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

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
