package proxy_test

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/mcp"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// offering returns a sidecar that serves MCP. Nobody dials the daemon that its tools would ask.
func offering(t *testing.T) *sidecar {
	return newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.MCP = mcp.New(mcp.Options{}).Handler()
	})
}

const mcpTarget = "/_botwired/mcp"

// The endpoint answers every kind of request as openapi.yaml describes it.
func TestMCPIsAnsweredAsDescribed(t *testing.T) {
	s := offering(t)
	ask := func(status int, body, contentType string, headers ...string) {
		t.Helper()
		headers = append(headers, "Content-Type", contentType, "Accept", "application/json, text/event-stream")
		wantStatus(t, s.do(http.MethodPost, mcpTarget, body, headers...), status)
	}
	const json = "application/json"
	ask(http.StatusOK, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, json)
	listening := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x://y"]},"_meta":` +
		`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	ask(http.StatusOK, listening, json, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen") // it ends: there is nothing to report
	ask(http.StatusAccepted, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, json)
	ask(http.StatusBadRequest, `{"jsonrpc":"2.0",`, json)
	ask(http.StatusOK, ` [{"jsonrpc":"2.0","id":1,"method":"tools/list"},7]`, json)
	ask(http.StatusAccepted, `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, json)
	ask(http.StatusOK, `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, json)
	ask(http.StatusBadRequest, "", json)
	ask(http.StatusBadRequest, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, json, "MCP-Protocol-Version", "2026-07-28")
	ask(http.StatusNotFound, `{"jsonrpc":"2.0","id":1,"method":"no/such","params":{"_meta":`+
		`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`, json,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "no/such")
	ask(http.StatusUnsupportedMediaType, `{}`, "text/plain")
	ask(http.StatusRequestEntityTooLarge, strings.Repeat(" ", 2<<20+1), json)
	wantStatus(t, s.get(mcpTarget), http.StatusMethodNotAllowed)
	wantStatus(t, newSidecar(t).do(http.MethodPost, mcpTarget, "{}"), http.StatusNotFound)
}

// A call may take longer than the server's limits on a request.
func TestACallOfMCPOutlivesTheServersLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
			o.MCP = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(mcpTime):
					w.WriteHeader(http.StatusAccepted)
				case <-r.Context().Done():
					t.Error(r.Context().Err())
				}
			})
		})
		conn, err := serve(t, s).Dial(t.Context())
		noError(t, err)
		_, err = conn.Write([]byte("POST " + mcpTarget + " HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"))
		noError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		noError(t, err)
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("status %d", resp.StatusCode)
		}
		noError(t, errors.Join(resp.Body.Close(), conn.Close()))
	})
}
