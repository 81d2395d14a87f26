package wire

import (
	"fmt"
	"net/http"
	"strconv"
)

// Refusal is a complete answer other than success. Body is the JSON document; Allow is sent when it
// is not empty.
type Refusal struct {
	Status int
	Allow  string
	Body   []byte
}

// Error gives the status only: the body may echo what the caller sent, which has no place in a log.
func (r *Refusal) Error() string {
	return fmt.Sprintf("refused with %d %s", r.Status, http.StatusText(r.Status))
}

// Write sends the refusal. Headers already set on w stay; an error of the connection is not reported,
// there being nobody left to tell.
func (r *Refusal) Write(w http.ResponseWriter) {
	h := w.Header()
	if r.Allow != "" {
		h.Set("Allow", r.Allow)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body)
}

// Detail is a refusal whose body is {"detail": detail}.
func Detail(status int, detail string) *Refusal {
	body := appendString([]byte(`{"detail":`), detail)
	return &Refusal{Status: status, Body: append(body, '}')}
}

// NotFound is BotWire's 404 for an entry that does not exist.
func NotFound(ns, key string) *Refusal {
	return Detail(http.StatusNotFound, NotFoundDetail(ns, key))
}

// NotFoundDetail is what BotWire says of an entry that does not exist.
func NotFoundDetail(ns, key string) string { return "Key not found: " + ns + "/" + key }

// MethodNotAllowed is BotWire's 405. It allows GET alone, whichever route was asked: the framework
// names the methods of the first route that matches the path.
func MethodNotAllowed() *Refusal {
	r := Detail(http.StatusMethodNotAllowed, "Method Not Allowed")
	r.Allow = http.MethodGet
	return r
}
