package proxy

import "net/http"

// describeAPI answers with the description of the daemon's HTTP. A caller that has it is answered
// 304.
func (s *surface) describeAPI(w http.ResponseWriter, r *http.Request) error {
	wanted, err := parseConditions(r.Header)
	if err != nil {
		return err
	}
	doc, err := s.description()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // a new binary is seen at once
	h.Set("Etag", doc.Tag)
	if wanted.noneMatch.given && wanted.noneMatch.has(doc.Tag, true) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	writeJSON(w, http.StatusOK, doc.JSON)
	return nil
}
