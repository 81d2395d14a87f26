package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/botwired/botwired/api"
)

// An export that breaks off amid a line is no answer of another program.
func TestLinesThatAreCutOff(t *testing.T) {
	for sent, want := range map[string]int{"{}\n{\"key\":\"a": 1, "{}\n{\"key\":\"a\"}": 2, "{}\n": 1} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, sent)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		transport := &http.Transport{DisableKeepAlives: true}
		c := api.NewClient(api.Options{Listen: strings.TrimPrefix(server.URL, "http://"), Transport: transport})
		lines := 0
		err := c.Lines(t.Context(), api.Request{Path: api.Surface("export")}, func([]byte) error { lines++; return nil })
		if !errors.Is(err, io.ErrUnexpectedEOF) || lines != want {
			t.Errorf("after %q, it ends with %v, and has read %d lines", sent, err, lines)
		}
		server.Close()
	}
}
