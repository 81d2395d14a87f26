package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// endpoint answers messages over HTTP. It takes each one out of its batch, gives it an id that the library keeps,
// and makes every refusal an answer of JSON-RPC.
type endpoint struct{ library http.Handler }

func (s *Server) newHandler() http.Handler {
	server := s.newServer()
	return &endpoint{sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage,
		DisableLocalhostProtection: true, // a guard in front of the handler knows which names are its own
	})}
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Method != http.MethodPost || kind != "application/json" {
		e.library.ServeHTTP(w, r) // it refuses this
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		fault := result{status: http.StatusBadRequest, text: errorAnswer(nil, faultf(jsonrpc.CodeInvalidRequest, "invalid request: the body ends too early"))}
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			fault.status = http.StatusRequestEntityTooLarge
			fault.text = errorAnswer(nil, faultf(jsonrpc.CodeInvalidRequest, "invalid request: the body has more than %d bytes", tooLarge.Limit))
		}
		fault.write(w)
		return
	}
	messages, isBatch := parse(text)
	switch {
	case len(messages) == 0:
		fault := errorAnswer(nil, faultf(jsonrpc.CodeParseError, "parse error: the body is empty: expected one message of JSON-RPC 2.0"))
		(&result{status: http.StatusBadRequest, text: fault}).write(w)
	case isBatch:
		e.answerBatch(w, r, messages)
	default:
		e.answer(r, &messages[0]).write(w)
	}
}

// answerBatch writes each answer before it makes the next one: together they could be too much for the memory.
func (e *endpoint) answerBatch(w http.ResponseWriter, r *http.Request, messages []message) {
	before := "["
	for i := range messages {
		out := e.answer(r, &messages[i])
		if len(out.text) == 0 || messages[i].fault == nil && !messages[i].isCall() {
			continue
		}
		if out.isStream() {
			out.text = errorAnswer(messages[i].id, faultf(jsonrpc.CodeInvalidRequest, "invalid request: its answer is a stream, which no batch can have"))
		}
		if before == "[" {
			w.Header().Set("Content-Type", "application/json")
		}
		if _, err := w.Write(append([]byte(before), out.text...)); err != nil {
			return // the client has left
		}
		before = ","
	}
	if before == "[" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	_, _ = w.Write([]byte("]")) // if the client has left, nobody needs it
}

// answer has the library answer a message.
func (e *endpoint) answer(r *http.Request, m *message) *result {
	if m.fault != nil {
		return &result{status: http.StatusBadRequest, text: errorAnswer(m.id, m.fault)}
	}
	const own = "call"
	if m.isCall() {
		m.fields["id"] = json.RawMessage(`"` + own + `"`)
	} else if m.method != "" {
		delete(m.fields, "id")
	}
	text, err := encode(m.fields)
	if err != nil {
		return &result{status: http.StatusBadRequest, text: errorAnswer(m.id, faultf(jsonrpc.CodeParseError, "parse error: this is not JSON"))}
	}
	inner := r.Clone(r.Context())
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	out := &result{header: make(http.Header)}
	e.library.ServeHTTP(out, inner)
	kind := out.header.Get("Content-Type")
	switch {
	case kind == "application/json" || out.isStream():
		out.text = answerTo(m.id, own, out.text)
	case out.status >= http.StatusBadRequest:
		out.refuse(m)
	}
	return out
}

// refuse turns a refusal in plain text into an answer. Its status says whether the HTTP request was at fault: for
// a message that the library does not take, it is that of an answer, as some clients read no other.
func (out *result) refuse(m *message) {
	said := strings.TrimSpace(string(out.text))
	fault := faultf(jsonrpc.CodeInvalidRequest, "%s", said)
	switch unknown, isUnknown := strings.CutPrefix(said, "JSON RPC not handled: "); {
	case isUnknown:
		out.status, fault = http.StatusOK, faultf(jsonrpc.CodeMethodNotFound, "method not found: %s", unknown)
	case strings.HasPrefix(said, "invalid request"):
		out.status = http.StatusOK
	}
	if !m.isCall() && out.status == http.StatusOK {
		out.status, out.text, out.header = http.StatusAccepted, nil, nil // a notification has no answer
		return
	}
	out.header = http.Header{"Content-Type": {"application/json"}}
	out.text = errorAnswer(m.id, tidy(fault))
}

// result is what the library answers.
type result struct {
	header http.Header
	status int
	text   []byte
}

func (out *result) Header() http.Header { return out.header }

func (out *result) WriteHeader(status int) {
	if out.status == 0 {
		out.status = status
	}
}

func (out *result) Write(text []byte) (int, error) {
	out.WriteHeader(http.StatusOK)
	out.text = append(out.text, text...)
	return len(text), nil
}

func (out *result) isStream() bool { return out.header.Get("Content-Type") == "text/event-stream" }

func (out *result) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	for name, values := range out.header {
		w.Header()[name] = values
	}
	if len(out.text) == 0 {
		w.Header().Del("Content-Type")
	}
	if out.status != 0 {
		w.WriteHeader(out.status)
	}
	_, _ = w.Write(out.text) // if the client has left, nobody needs it
}
