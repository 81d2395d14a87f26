package proxy

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/mcp"
)

// offering has a sidecar serve MCP. Nobody dials the daemon that its tools would ask.
func offering(t *testing.T) *sidecar {
	offered := mcp.New(mcp.Options{URL: "http://localhost"})
	t.Cleanup(offered.Close)
	return newSidecar(t, func(_ *journal.Options, o *Options) { o.MCP = offered.Handler() })
}

const mcpTarget = "/_botwired/mcp"

// The endpoint's answers are as the description says, whatever the request.
func TestMCPIsAnsweredAsDescribed(t *testing.T) {
	s := offering(t)
	ask := func(status int, body, contentType string, headers ...string) {
		t.Helper()
		headers = append(headers, "Content-Type", contentType, "Accept", "application/json, text/event-stream")
		wantStatus(t, s.do(http.MethodPost, mcpTarget, body, headers...), status)
	}
	const json = "application/json"
	ask(http.StatusOK, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, json)
	ask(http.StatusAccepted, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, json)
	ask(http.StatusBadRequest, `{"jsonrpc":"2.0",`, json)
	ask(http.StatusBadRequest, ` [{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, json) // the answers are bounded one by one
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

// A stream lasts as long as its reader takes it, longer than the server's limits on a request, and
// a reader that takes nothing more is given up.
func TestAStreamOfMCPOutlivesTheServersLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		s := newSidecar(t, func(_ *journal.Options, o *Options) {
			o.MCP = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for {
					if _, err := w.Write([]byte(strings.Repeat("x", wire.MaxBodyBytes/1000) + "\n")); err != nil {
						failed <- err
						return
					}
					w.(http.Flusher).Flush()
					select {
					case <-time.After(time.Minute):
					case <-r.Context().Done():
						failed <- r.Context().Err()
						return
					}
				}
			})
		})
		listener := serve(t, s)
		conn, err := listener.Dial(t.Context())
		noError(t, err)
		_, err = conn.Write([]byte("POST " + mcpTarget + " HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"))
		noError(t, err)
		lines := bufio.NewReaderSize(conn, 64<<10)
		for parts := 0; parts < 10; {
			line, err := lines.ReadString('\n')
			noError(t, err)
			if strings.HasPrefix(line, "x") {
				parts++
			}
		}
		began := time.Now()
		if err := <-failed; err == nil || errors.Is(err, context.Canceled) || time.Since(began) > 3*time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		noError(t, conn.Close())
	})
}
