package surface

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// jsonType is shared by all answers: nobody changes a header's values in place.
var jsonType = []string{"application/json"}

// WriteJSON answers with a JSON body.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // if this fails, the caller has gone
}

// writeDocument answers one of the daemon's own requests with a JSON document.
func writeDocument(w http.ResponseWriter, status int, doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	WriteJSON(w, status, append(body, '\n'))
	return nil
}

// stamp returns a time for a document; nil if it is zero.
func stamp(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC().Round(time.Millisecond)
	return &at
}

// WhileFull says what still works while the disk or the journal is full (contract 3). The journal's error
// says what happens next.
const WhileFull = "Reads and flushing go on."
