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

// errMCPBatch refuses several messages in one body. Their answers would be in memory together: a body of 2 MB
// could ask for gigabytes.
var errMCPBatch = wire.Detail(http.StatusBadRequest, "The body is a batch: expected one message of JSON-RPC 2.0.")

func (s *Surface) answerMCP(w http.ResponseWriter, r *http.Request, _ *Parameters) error {
	if s.opts.MCP == nil {
		return wire.Detail(http.StatusNotFound, "Not Found")
	}
	body, room, refusal := s.mcpBodies.Read(w, r)
	if refusal != nil {
		return refusal
	}
	defer room.Release()
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		return errMCPBatch
	}
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
