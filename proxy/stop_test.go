package proxy_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
)

// Contract 22: a stopping daemon sends new callers elsewhere, answers everybody, and in the end lets nobody
// wait for upstream.
func TestCallersOfADaemonThatStops(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "old"), "theirs")
		time.Sleep(time.Hour)
		s.flusher.await = func(ctx context.Context, _ journal.ID, _ uint64) bool { <-ctx.Done(); return false }
		s.flusher.stuck = true
		s.server.BeginStop()
		wantDetail(t, s.get("/_botwired/readyz"), http.StatusServiceUnavailable, "stopping")
		var status api.Status
		if decode(t, s.get("/_botwired/status"), &status); status.Ready || !status.Stopping || status.Journal.RefusesWrites {
			t.Errorf("the status of a daemon that stops: %+v", status)
		}
		wantStatus(t, s.get("/_botwired/livez"), http.StatusOK)
		s.put(id("n", "meanwhile"), "v")
		wantValue(t, s.get("/memory/n/meanwhile"), "v")

		s.upstream.hold()
		began := time.Now()
		write := s.begin(http.MethodPut, "/memory/n/waits", putBody("v"), "Prefer", "wait=60")
		read := s.begin(http.MethodGet, "/memory/n/unknown", "")
		stale := s.begin(http.MethodGet, "/memory/n/old", "")
		flush := s.begin(http.MethodPost, "/_botwired/flush?timeout=1h", "")
		synctest.Wait()
		s.server.EndWaits()
		w := <-write
		wantStatus(t, w, http.StatusOK)
		wantHeader(t, w, "Botwired-Write", "pending; seq=3")
		w = <-read
		wantDetail(t, w, http.StatusServiceUnavailable, "shutting down")
		wantHeader(t, w, "Retry-After", "1")
		wantValue(t, <-stale, "theirs")
		w = <-flush
		wantStatus(t, w, http.StatusGatewayTimeout)
		if took := time.Since(began); took > 0 {
			t.Errorf("the last is answered after %s", took)
		}
		w = s.put(id("n", "later"), "v", "Prefer", "wait=60")
		wantHeader(t, w, "Botwired-Write", "pending; seq=4")
	})
}
