package mcp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/mcp"
)

// A search makes progress even if values take long.
func TestSearchOfSlowValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcp.New(mcp.Options{Daemon: api.Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body := `{"keys":[]}`
			switch {
			case strings.HasSuffix(r.URL.Path, "/entries"):
				body = `{"entries":[{"key":"a"},{"key":"b"}],"complete":true}`
			case strings.HasPrefix(r.URL.Path, "/memory/n/"):
				time.Sleep(11 * time.Second)
				body = `{"value":"v"}`
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
		})}})
		answer := answersOf(t, s, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_search","arguments":{"namespace":"n","query":"v"}}}`)["1"]
		if !strings.Contains(answer, `"searched":1,"next":"a"`) {
			t.Errorf("it answers %s", answer)
		}
	})
}
