package proxy

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

// mcpPath is where the memory is offered to MCP clients, under surfacePrefix.
const mcpPath = "mcp"

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
	to := http.NewResponseController(w)
	if err := supported(to.SetReadDeadline(time.Time{})); err != nil { // it would end a stream
		return err
	}
	e.handler.ServeHTTP(&patientWriter{w, to}, r)
	return nil
}

// patientWriter gives the caller time to take each part of an answer, however long the whole lasts.
type patientWriter struct {
	http.ResponseWriter
	to *http.ResponseController
}

// Unwrap is for [http.ResponseController].
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patientWriter) Write(p []byte) (int, error) {
	if err := supported(w.to.SetWriteDeadline(time.Now().Add(writePatience))); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// Flush is for a handler that asks whether it can.
func (w *patientWriter) Flush() { _ = w.to.Flush() } // a caller that is gone shows at the next write
