package surface

import (
	"net/http"

	"github.com/botwired/botwired/api"
)

// flush answers when all writes acknowledged before are settled or dead, or when its time
// is up. With the parameter now it also tries what waits for a time.
func (s *Surface) flush(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace, timeout, now := p.namespace(), p.duration("timeout", flushTimeout, maxFlushTimeout, "1h"), p.truth("now")
	if p.Err != nil {
		return p.Err
	}
	if now {
		s.flusher.TryNow(namespace)
	}
	ctx, cancel := s.within(w, r, timeout)
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
