package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Entry is one value under (namespace, key). Times are Unix seconds.
type Entry struct {
	Namespace, Key, Value string
	CreatedAt, UpdatedAt  float64
}

// AppendJSON appends the answer to a GET of the entry.
func (e Entry) AppendJSON(dst []byte) []byte {
	dst = appendName(dst, `{"namespace":`, e.Namespace)
	dst = appendName(dst, `,"key":`, e.Key)
	dst = appendName(dst, `,"value":`, e.Value)
	dst = appendFloat(append(dst, `,"created_at":`...), e.CreatedAt)
	dst = appendFloat(append(dst, `,"updated_at":`...), e.UpdatedAt)
	return append(dst, '}')
}

// Item is one entry of a [Listing]. Bytes counts as [ListBytes] does; UpdatedAt is in Unix seconds.
type Item struct {
	Key       string
	Bytes     int
	UpdatedAt float64
}

// Listing is the entries of a namespace, newest first.
type Listing struct {
	Namespace string
	Items     []Item
}

// AppendJSON appends the answer to a GET of the namespace.
func (l Listing) AppendJSON(dst []byte) []byte {
	dst = appendName(dst, `{"namespace":`, l.Namespace)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(len(l.Items)), 10)
	dst = append(dst, `,"keys":[`...)
	for i, item := range l.Items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = item.appendJSON(dst)
	}
	return append(dst, "]}"...)
}

func (i Item) appendJSON(dst []byte) []byte {
	dst = appendName(dst, `{"key":`, i.Key)
	dst = strconv.AppendInt(append(dst, `,"bytes":`...), int64(i.Bytes), 10)
	dst = appendFloat(append(dst, `,"updated_at":`...), i.UpdatedAt)
	return append(dst, '}')
}

// AppendStored appends the answer to a PUT of a value of n code points.
func AppendStored(dst []byte, ns, key string, n int) []byte {
	dst = appendName(dst, `{"namespace":`, ns)
	dst = appendName(dst, `,"key":`, key)
	dst = strconv.AppendInt(append(dst, `,"stored":true,"bytes":`...), int64(n), 10)
	return append(dst, '}')
}

// AppendDeleted appends the answer to a DELETE of an entry that existed.
func AppendDeleted(dst []byte, ns, key string) []byte {
	dst = appendName(dst, `{"deleted":true,"namespace":`, ns)
	dst = appendName(dst, `,"key":`, key)
	return append(dst, '}')
}

func appendName(dst []byte, before, s string) []byte {
	return appendString(append(dst, before...), s)
}

// appendString appends s as a JSON string. It escapes only what JSON demands: quotes, backslashes and the
// control characters below U+0020. It writes an invalid byte as U+FFFD.
func appendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if _, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))])); size > 1 { // 1: invalid
				i += size
				continue
			}
		}
		dst = append(dst, s[done:i]...)
		dst, i = appendEscaped(dst, s, i)
		done = i
	}
	dst = append(dst, s[done:]...)
	return append(dst, '"')
}

// appendEscaped appends the escape of the character at s[i:], and returns where that character ends.
func appendEscaped[S ~string | ~[]byte](dst []byte, s S, i int) ([]byte, int) {
	c := s[i]
	if at := strings.IndexByte(escaped, c); at >= 0 {
		return append(dst, '\\', escapes[at]), i + 1
	}
	if c < ' ' {
		return fmt.Appendf(dst, `\u%04x`, c), i + 1
	}
	return append(dst, "\uFFFD"...), i + 1
}

// A backslash and a letter of escapes stand for the character at its place in escaped.
const (
	escapes = `"\bfnrt/`
	escaped = "\"\\\b\f\n\r\t/"
)

// appendFloat appends f as Python's repr prints it: the shortest digits that read back the same, with an
// exponent below 1e-4 and from 1e16 on, and always with a point or an exponent. NaN and the infinities, which
// JSON lacks, become null.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}

// Refusal is the complete answer to a refused request. Body is the JSON document. Allow is sent if not empty, and
// RetryAfter, in whole seconds, if it is above zero.
type Refusal struct {
	Status     int
	Allow      string
	RetryAfter time.Duration
	Body       []byte
}

// Error names only the status: the body may echo the caller's value, which must not reach a log.
func (r *Refusal) Error() string {
	return fmt.Sprintf("refused with %d %s", r.Status, http.StatusText(r.Status))
}

// Text returns the detail of the body, for people.
func (r *Refusal) Text() string {
	var said struct{ Detail string }
	_ = json.Unmarshal(r.Body, &said)
	return said.Detail
}

// Write sends the refusal. Headers already set on w stay. It drops an error of the connection, because the
// caller has gone.
func (r *Refusal) Write(w http.ResponseWriter) {
	h := w.Header()
	if r.Allow != "" {
		h.Set("Allow", r.Allow)
	}
	if r.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.RetryAfter.Seconds()))))
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body)
}

// Detail returns a refusal whose body is {"detail": detail}.
func Detail(status int, detail string) *Refusal {
	body := appendString([]byte(`{"detail":`), detail)
	return &Refusal{Status: status, Body: append(body, '}')}
}

// Unavailable returns a 503 that asks the caller to try again after a time, at least a second.
func Unavailable(after time.Duration, detail string) *Refusal {
	refusal := Detail(http.StatusServiceUnavailable, detail)
	refusal.RetryAfter = max(after, time.Second)
	return refusal
}

// NotFound returns BotWire's 404 for an entry that does not exist.
func NotFound(ns, key string) *Refusal {
	return Detail(http.StatusNotFound, NotFoundDetail(ns, key))
}

// NotFoundDetail returns the detail of [NotFound].
func NotFoundDetail(ns, key string) string { return "Key not found: " + ns + "/" + key }

// MethodNotAllowed returns BotWire's 405. It allows GET only, on every route: BotWire's framework names the
// methods of the first route that matches the path.
func MethodNotAllowed() *Refusal {
	r := Detail(http.StatusMethodNotAllowed, "Method Not Allowed")
	r.Allow = http.MethodGet
	return r
}
