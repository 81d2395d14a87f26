package surface

import (
	"net/http"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/proxy/memory"
)

func (s *Surface) livez(w http.ResponseWriter, _ *http.Request, _ *Parameters) error {
	return writeDocument(w, http.StatusOK, map[string]string{"status": "alive"})
}

var errStopping = wire.Detail(http.StatusServiceUnavailable,
	"not ready: botwired is stopping. It answers requests until it has flushed what is pending, or flush.drain_timeout is over.")

// readyz answers 200 if the journal could take a write now and the daemon is not stopping.
func (s *Surface) readyz(w http.ResponseWriter, _ *http.Request, _ *Parameters) error {
	if err := s.journal.Err(); err != nil {
		return wire.Detail(http.StatusServiceUnavailable, "not ready: "+refusalReason(err))
	}
	if s.stopping.Load() { // guard 22.16
		return errStopping
	}
	return writeDocument(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (s *Surface) exposeMetrics(w http.ResponseWriter, r *http.Request, _ *Parameters) error {
	s.metrics.ServeHTTP(w, r)
	return nil
}

// describeHTTP answers with the OpenAPI description, or 304 to a caller that has it.
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
