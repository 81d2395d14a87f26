package ask_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/botwired/botwired/proof/ask"
)

// An answer that breaks off is none.
func TestOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", r.URL.Query().Get("length"))
		_, _ = w.Write([]byte(r.Method + " " + r.URL.Path))
	}))
	defer server.Close()
	client := ask.NewClient()
	defer client.CloseIdleConnections()
	a, err := ask.Once(t.Context(), client, http.MethodPut, server.URL+"/key?length=8", []byte("{}"))
	if err != nil || a.Status != http.StatusOK || string(a.Body) != "PUT /key" {
		t.Errorf("%d %q (%v)", a.Status, a.Body, err)
	}
	if a, err := ask.Once(t.Context(), client, http.MethodPut, server.URL+"/key?length=9", nil); err == nil {
		t.Errorf("half an answer is one: %q", a.Body)
	}
}
