package wire

import (
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	// maxNamespace and maxKey bound the names, in characters, which are all ASCII.
	maxNamespace = 64
	maxKey       = 128
	// maxValue bounds a value, in code points. BotWire calls it 100KB but counts characters.
	maxValue = 100_000
)

// CheckNamespace refuses a name that does not match [a-zA-Z0-9_-]{1,64}.
func CheckNamespace(ns string) *Refusal {
	if isName(ns, maxNamespace, "_-") {
		return nil
	}
	return Detail(http.StatusBadRequest, "Invalid namespace. Use 1-64 alphanumeric/underscore/dash chars.")
}

// CheckKey refuses a key that does not match [a-zA-Z0-9_.-]{1,128}.
func CheckKey(key string) *Refusal {
	if isName(key, maxKey, "_-.") {
		return nil
	}
	return Detail(http.StatusBadRequest, "Invalid key. Use 1-128 alphanumeric/underscore/dash/dot chars.")
}

// CheckEntry checks the namespace, then the key.
func CheckEntry(ns, key string) *Refusal {
	if r := CheckNamespace(ns); r != nil {
		return r
	}
	return CheckKey(key)
}

// CheckSize refuses a value of more than 100,000 code points.
func CheckSize(value string) *Refusal {
	if len(value) <= maxValue || CodePoints(value) <= maxValue {
		return nil
	}
	return Detail(http.StatusBadRequest, "Value too large. Max 100KB.")
}

// CheckPut checks the names, then the value's size, as BotWire does after it has decoded the body.
func CheckPut(ns, key, value string) *Refusal {
	if r := CheckEntry(ns, key); r != nil {
		return r
	}
	return CheckSize(value)
}

// CodePoints returns the size of a value as the answer to a PUT counts it.
func CodePoints(s string) int { return utf8.RuneCountInString(s) }

// ListBytes returns the size of a value as a listing counts it: the code points before the first NUL, like
// SQLite's length().
func ListBytes(s string) int {
	if nul := strings.IndexByte(s, 0); nul >= 0 {
		s = s[:nul]
	}
	return CodePoints(s)
}

func isName(s string, most int, extra string) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && strings.IndexByte(extra, s[i]) < 0 {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
