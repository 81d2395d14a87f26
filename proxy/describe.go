package proxy

import (
	"net/http"

	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/openapi"
)

// describer describes the daemon's HTTP for programs.
type describer struct {
	load func() (*openapi.Document, error)
}

// answer answers with the description. A caller that has it is answered 304.
func (d describer) answer(w http.ResponseWriter, r *http.Request) error {
	wanted, err := memory.ParseConditions(r.Header["If-Match"], r.Header["If-None-Match"])
	if err != nil {
		return err
	}
	doc, err := d.load()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // a new binary is seen at once
	h.Set("Etag", doc.Tag)
	if wanted.Unchanged(doc.Tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	writeJSON(w, http.StatusOK, doc.JSON)
	return nil
}
