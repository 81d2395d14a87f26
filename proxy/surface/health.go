package surface

import (
	"net/http"

	"github.com/botwired/botwired/internal/wire"
)

func (s *Surface) livez(w http.ResponseWriter, _ *http.Request, _ *Parameters) error {
	return writeDocument(w, http.StatusOK, map[string]string{"status": "alive"})
}

// errStopping says at readyz that the daemon is about to end.
var errStopping = wire.Detail(http.StatusServiceUnavailable,
	"not ready: botwired is stopping. It answers requests until it has flushed what is pending, or flush.drain_timeout is over.")

// readyz answers 200 when the journal could take a write now and the daemon is to stay.
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
