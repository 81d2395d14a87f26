package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

// token checks the token. It compares digests, in constant time, so that the time that a check takes shows
// neither the token's bytes nor its length.
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
	given := sha256.Sum256([]byte(credential(values[0])))
	return subtle.ConstantTimeCompare(given[:], t.digest[:]) == 1
}

// credential returns the token that an Authorization header holds; empty if it holds none. HTTP clients
// make a Basic one of the user and the password in a URL (RFC 7617): the password is the token, and the
// user may be anybody. An SDK that sends no header of its caller's can get in by that.
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
