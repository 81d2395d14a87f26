package surface

import (
	"net/http"

	"github.com/botwired/botwired/api"
)

// flush answers when all writes acknowledged before are settled or dead, or when its time
// is up. With the parameter now it also tries what waits for a time.
func (s *Surface) flush(w http.ResponseWriter, r *http.Request) error {
	namespace, err := namespaceParameter(r)
	if err != nil {
		return err
	}
	timeout, err := durationParameter(r, "timeout", flushTimeout, maxFlushTimeout, "1h")
	if err != nil {
		return err
	}
	now, err := boolParameter(r, "now")
	if err != nil {
		return err
	}
	if err := Allow(w, timeout); err != nil {
		return err
	}
	if now {
		s.flusher.TryNow(namespace)
	}
	ctx, cancel := s.tasks.Patience(r.Context(), timeout)
	defer cancel()
	settled, dead, pending, err := s.flusher.Flush(ctx, namespace)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if pending > 0 || err != nil {
		return writeDocument(w, http.StatusGatewayTimeout, api.Flushed{Settled: settled, Dead: dead, Pending: pending, Waits: s.waits(namespace)})
	}
	return writeDocument(w, http.StatusOK, api.Flushed{Settled: settled, Dead: dead})
}
