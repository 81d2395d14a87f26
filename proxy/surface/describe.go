package surface

import (
	"net/http"

	"github.com/botwired/botwired/proxy/memory"
)

// describeHTTP describes the daemon's HTTP for programs. A caller that has the description is answered 304.
func (s *Surface) describeHTTP(w http.ResponseWriter, r *http.Request, _ *Parameters) error {
	wanted, err := memory.ParseConditions(r.Header["If-Match"], r.Header["If-None-Match"])
	if err != nil {
		return err
	}
	doc, err := s.openAPI()
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
	WriteJSON(w, http.StatusOK, doc.JSON)
	return nil
}
