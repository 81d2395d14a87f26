package surface

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// jsonType is shared by all answers: nobody changes the values of a header in place.
var jsonType = []string{"application/json"}

// WriteJSON answers with a body of JSON.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // if this fails the caller is gone
}

// writeDocument answers one of the daemon's own requests.
func writeDocument(w http.ResponseWriter, status int, doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	WriteJSON(w, status, append(body, '\n'))
	return nil
}

// stamp returns a time as documents have it; nil if it is zero.
func stamp(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC().Round(time.Millisecond)
	return &at
}

// WhileFull says what else a full disk or a full journal means (contract 3). The journal's
// error says what happens next.
const WhileFull = "Reads and flushing go on."
