package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// A daemon that waits for room serves, says what it waits for, and ends when stopped (contract 3).
func TestADaemonThatWaitsForRoomAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		served := 0
		o := &opening{logger: slog.New(slog.NewTextHandler(&log, nil)), dir: "/data", serve: func() { served++ }}
		ask := func(path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			o.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w
		}
		if w := ask("/_botwired/status"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "full") {
			t.Errorf("while the journal is being opened: %d %s", w.Code, w.Body)
		}
		for range 3 {
			if err := o.awaitRoom(t.Context(), 3<<20-1); err != nil {
				t.Error(err)
			}
		}
		for _, path := range []string{"/_botwired/readyz", "/memory/n/k", "/_botwired/status"} {
			w := ask(path)
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
				!strings.HasPrefix(w.Body.String(), `{"detail":"not ready: disk full: 3 MiB needed in /data, on the disk and in this user's quota;`) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		if w := ask("/_botwired/livez"); w.Code != http.StatusOK || w.Body.String() != `{"status":"alive"}` {
			t.Errorf("livez: %d %s", w.Code, w.Body)
		}
		if n := strings.Count(log.String(), "\n"); served == 0 || n != 1 || !strings.Contains(log.String(), `needed="3 MiB"`) {
			t.Errorf("it began to serve %d times, and logged: %s", served, &log)
		}
		log.Reset()
		for range 2 {
			if err := o.awaitRoom(t.Context(), 0); err != nil {
				t.Error(err)
			}
		}
		if w := ask("/memory/n/k"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "full") {
			t.Errorf("once there is room: %d %s", w.Code, w.Body)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "there is room") {
			t.Errorf("once there is room, it logged: %s", &log)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := o.awaitRoom(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("at the end of its context: %v", err)
		}
	})
}
