package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// message is what a client has sent as one message of JSON-RPC 2.0.
type message struct {
	fields map[string]json.RawMessage
	method string          // "" for an answer
	id     json.RawMessage // as the client wrote it; "null" for a call with that id; nil if there is none
	fault  *jsonrpc.Error  // why it is no message; its answer
}

func (m *message) isCall() bool { return m.method != "" && m.id != nil }

func faultf(code int64, format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

var byteOrderMark = []byte("\ufeff")

// parse returns the messages in a text: one, those of a batch, or none if the text is blank. What is no message
// has a fault.
func parse(text []byte) (messages []message, isBatch bool) {
	text = bytes.Trim(bytes.TrimPrefix(text, byteOrderMark), " \t\r\n")
	if len(text) == 0 {
		return nil, false
	}
	if text[0] != '[' || !json.Valid(text) {
		return []message{parseOne(text)}, false
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) == 0 {
		return []message{{fault: faultf(jsonrpc.CodeInvalidRequest, "invalid request: the batch is empty")}}, false
	}
	for _, part := range parts {
		messages = append(messages, parseOne(part))
	}
	return messages, true
}

func parseOne(text []byte) (m message) {
	if err := json.Unmarshal(text, &m.fields); err != nil || m.fields == nil {
		m.fault = faultf(jsonrpc.CodeInvalidRequest, "invalid request: expected an object of JSON-RPC 2.0")
		if !json.Valid(text) {
			m.fault = faultf(jsonrpc.CodeParseError, "parse error: this is not JSON: expected one message of JSON-RPC 2.0")
		}
		return m
	}
	if id := m.fields["id"]; len(id) > 0 && strings.IndexByte(`"-0123456789n`, id[0]) >= 0 && utf8.Valid(id) {
		m.id = id
	}
	var version string
	method, hasMethod := m.fields["method"]
	isNotification := hasMethod && bytes.HasPrefix(method, []byte(`"notifications/`))
	switch {
	case !utf8.Valid(text):
		m.fault = faultf(jsonrpc.CodeParseError, "parse error: the message is not valid UTF-8")
	case json.Unmarshal(m.fields["jsonrpc"], &version) != nil || version != "2.0":
		m.fault = faultf(jsonrpc.CodeInvalidRequest, `invalid request: expected "jsonrpc": "2.0"`)
	case m.fields["id"] != nil && m.id == nil:
		m.fault = faultf(jsonrpc.CodeInvalidRequest, "invalid request: id: expected a text or a number")
	case !hasMethod && (m.id == nil || m.fields["result"] == nil && m.fields["error"] == nil):
		m.fault = faultf(jsonrpc.CodeInvalidRequest, "invalid request: method is missing")
	case hasMethod && (json.Unmarshal(method, &m.method) != nil || m.method == ""):
		m.fault = faultf(jsonrpc.CodeInvalidRequest, "invalid request: method: expected a text")
	case isNotification && string(m.id) == "null":
		m.id = nil // some clients write all members
	case isNotification && m.id != nil:
		m.fault = faultf(jsonrpc.CodeInvalidRequest, "invalid request: a notification has no id")
	}
	return m
}

// errorAnswer returns the answer to a message that cannot be carried out.
func errorAnswer(id json.RawMessage, fault *jsonrpc.Error) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	said, _ := encode(fault) //nolint:errchkjson // it has only a number, a text and what was JSON before
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, said)
}

// answerTo gives an answer that the library has encoded the id that the client has sent. own is the id under
// which the library knows the call: it keeps no number beyond 2^53, and no fraction.
func answerTo(id json.RawMessage, own string, encoded []byte) []byte {
	// The library writes the id before all that a value could be in, and a value's quotation marks are escaped.
	ours := []byte(`"id":"` + own + `"`)
	if bytes.HasPrefix(encoded, fmt.Appendf(nil, `{"jsonrpc":"2.0",%s,"error":`, ours)) {
		var answer struct{ Error *jsonrpc.Error }
		if json.Unmarshal(encoded, &answer) == nil && answer.Error != nil {
			return errorAnswer(id, tidy(answer.Error))
		}
	}
	encoded = bytes.Replace(encoded, ours, append([]byte(`"id":`), id...), 1)
	return subscribed(id, own, encoded)
}

// subscribed gives the call that a subscription began with the id that the client has sent.
func subscribed(id json.RawMessage, own string, encoded []byte) []byte {
	const member = `"io.modelcontextprotocol/subscriptionId":`
	return bytes.ReplaceAll(encoded, []byte(member+`"`+own+`"`), append([]byte(member), id...))
}

// tidy returns an error of the library's without what the client has sent.
func tidy(e *jsonrpc.Error) *jsonrpc.Error {
	switch before, _, repeats := strings.Cut(e.Message, ": unmarshaling "); {
	case strings.Contains(e.Message, "nesting depth"):
		return faultf(jsonrpc.CodeInvalidRequest, "invalid request: the message is nested too deeply")
	case repeats:
		return faultf(e.Code, "%s: these are not the params of the method", before)
	case e.Code == 0:
		return faultf(jsonrpc.CodeInvalidRequest, "invalid request: %s", e.Message)
	}
	return e
}
