package proxy

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

const (
	// mcpPath is where the memory is offered to MCP clients, under surfacePrefix.
	mcpPath = "mcp"
	// mcpTime is how long a call of a tool may take: it makes several requests.
	mcpTime = 2 * time.Minute
)

// errMCPBatch refuses several messages in one body. Their answers would be in the memory together: a
// body of 2 MB asks for gigabytes.
var errMCPBatch = wire.Detail(http.StatusBadRequest, "The body is a batch: expected one message of JSON-RPC 2.0.")

// mcpEndpoint bounds what a request to the MCP handler holds, and leaves the rest to that.
type mcpEndpoint struct {
	handler http.Handler // nil if there is none
	// bodies are apart from those of the memory API: the handler's own requests to that wait for
	// room while their caller has some.
	bodies *wire.Bodies
}

func (e *mcpEndpoint) answer(w http.ResponseWriter, r *http.Request) error {
	if err := require(r, http.MethodPost); err != nil {
		return err
	}
	if e.handler == nil {
		return wire.Detail(http.StatusNotFound, "Not Found")
	}
	body, room, refusal := e.bodies.Read(w, r)
	if refusal != nil {
		return refusal
	}
	defer room.Release()
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		return errMCPBatch
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	// The server's limit on the time to read a request would end the call.
	if err := supported(http.NewResponseController(w).SetReadDeadline(time.Time{})); err != nil {
		return err
	}
	if err := allow(w, mcpTime); err != nil {
		return err
	}
	e.handler.ServeHTTP(w, r)
	return nil
}
