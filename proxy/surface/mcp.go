package surface

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

// mcpTime bounds a tool call, which makes several requests.
const mcpTime = 2 * time.Minute

func (s *Surface) answerMCP(w http.ResponseWriter, r *http.Request, _ *Parameters) error {
	if s.opts.MCP == nil {
		return wire.Detail(http.StatusNotFound, "Not Found")
	}
	body, room, refusal := s.mcpBodies.Read(w, r)
	if refusal != nil {
		return refusal
	}
	defer room.Release()
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	// The server's read timeout would end the call.
	if err := supported(http.NewResponseController(w).SetReadDeadline(time.Time{})); err != nil {
		return err
	}
	Allow(w, mcpTime)
	s.opts.MCP.ServeHTTP(w, r)
	return nil
}
