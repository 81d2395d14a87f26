package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/wire"
)

// A write that upstream refuses for good is in the log, in the status, and in the next start's log,
// until a later write to the key has settled.
func TestTheLifeOfADeadLetter(t *testing.T) {
	newHome(t)
	service, err := selfhost.Open(t.Context(), selfhost.Options{Path: filepath.Join(t.TempDir(), "upstream.db")})
	no(t, err)
	t.Cleanup(func() { no(t, service.Close()) })
	refusing := atomic.Bool{}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusing.Load() && r.Method == http.MethodPut {
			wire.Detail(http.StatusBadRequest, "Value too large. Max 100KB.").Write(w)
			return
		}
		service.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(upstream.Close)
	args := []string{"--upstream", upstream.URL, "--data-dir", t.TempDir()}
	l := startLife(t, args...)
	refusing.Store(true)
	if got := l.put("dead"); got != "dead; seq=1" {
		t.Errorf("Botwired-Write: %s", got)
	}
	l.logs("upstream refused a write for good")
	l.says("dead letters  1: 1 to decide on", "status")
	l.end()

	l = startLife(t, args...)
	l.logs("upstream has refused writes for good, and they wait for your decision")
	refusing.Store(false)
	if got := l.put("new"); got != "settled; seq=2" {
		t.Errorf("Botwired-Write: %s", got)
	}
	l.says("dead letters  1: 1 superseded or dropped", "status")
	l.says("superseded by 2", "dead-letters")
	l.says("dead", "dead-letters", "show", "1")
	l.end()

	l = startLife(t, args...) // the log no longer mentions it
	l.says("deleted 1 dead letter\n", "dead-letters", "delete", "--all", "--yes")
	l.end()
}
