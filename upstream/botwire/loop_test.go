package botwire_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/via"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
)

// contract 13: an answer from this daemon itself, or from a daemon that uses this one as its upstream,
// confirms nothing. All requests upstream are signed, including forwarded ones.
func TestOwnAnswerConfirmsNothing(t *testing.T) {
	for status, verdict := range map[int]upstream.Verdict{http.StatusLoopDetected: upstream.Unsent, http.StatusOK: upstream.Transient} {
		var signed []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			signed = append(signed, r.Header.Get("Via"))
			w.Header().Set("Via", r.Header.Get("Via")+", 1.1 botwired-another")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"namespace":"ns","key":"k","stored":true,"deleted":true,"count":0,"keys":[]}`))
		}))
		t.Cleanup(server.Close)
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		c := botwire.NewClient(botwire.Options{URL: u, Timeout: timeout, Concurrency: 1, Chain: via.New()})
		t.Cleanup(c.Close)
		_, getErr := c.Get(t.Context(), key("k"))
		deleteErr := remove(t.Context(), c)
		_, _, listErr := c.List(t.Context(), "ns")
		for what, err := range map[string]error{
			"put": put(t.Context(), c, "v"), "delete": deleteErr, "get": getErr, "list": listErr,
		} {
			var failed *upstream.Error
			if !errors.As(err, &failed) || failed.Verdict != verdict || !failed.Unreachable || !strings.Contains(failed.Reason, "this daemon itself") {
				t.Errorf("%d to a %s: %+v", status, what, err)
			}
		}
		h := botwire.NewForwarder(c, func() bool { return false }, slog.New(slog.DiscardHandler))
		forwarded(h, http.MethodGet, "/channels", nil)
		if len(signed) != 5 {
			t.Errorf("%d requests", len(signed))
		}
		for _, name := range signed {
			if !strings.HasPrefix(name, "1.1 botwired-") || name != signed[0] {
				t.Errorf("a request is signed %q, the first one %q", name, signed[0])
			}
		}
	}
}
