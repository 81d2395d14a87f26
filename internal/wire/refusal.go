package wire

import (
	"fmt"
	"net/http"
	"strconv"
)

// Refusal is the complete answer to a refused request. Body is the JSON document. Allow is sent if not empty.
type Refusal struct {
	Status int
	Allow  string
	Body   []byte
}

// Error names only the status: the body may echo the caller's value, which must not reach a log.
func (r *Refusal) Error() string {
	return fmt.Sprintf("refused with %d %s", r.Status, http.StatusText(r.Status))
}

// Write sends the refusal. Headers already set on w stay. It drops an error of the connection, because the
// caller has gone.
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

// Detail returns a refusal whose body is {"detail": detail}.
func Detail(status int, detail string) *Refusal {
	body := appendString([]byte(`{"detail":`), detail)
	return &Refusal{Status: status, Body: append(body, '}')}
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
