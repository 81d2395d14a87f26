package upstream_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/selfhost"
)

// A confirmed write lets reads go: after a flush has gone through, no read is turned
// away for an outage that is over.
func TestConfirmedWriteLetsReadsGo(t *testing.T) {
	var up atomic.Bool
	client := switchedClient(t, &up)
	reader := upstream.NewReader(upstream.ReaderOptions{Engine: client, BackoffInitial: time.Hour, BackoffMax: time.Hour})
	unknown := journal.ID{Namespace: "ns", Key: "unknown"}
	wantUnavailable := func(when string) {
		t.Helper()
		if _, err := reader.Get(t.Context(), unknown, true); !errors.As(err, new(*upstream.Unavailable)) {
			t.Errorf("%s: %v, want that upstream is unavailable", when, err)
		}
	}
	wantUnavailable("down")
	reader.WriteConfirmed()
	wantUnavailable("still down")
	up.Store(true)
	wantUnavailable("until the next probe")
	if failing, _ := reader.Failing(); !failing {
		t.Error("reads are not failing")
	}
	reader.WriteConfirmed()
	for range 2 {
		if o, err := reader.Get(t.Context(), unknown, true); o != nil || err != nil {
			t.Errorf("read after a confirmed write: %+v, %v, want that there is nothing", o, err)
		}
	}
	if failing, _ := reader.Failing(); failing {
		t.Error("reads are still failing")
	}
}

// switchedClient is a client of a memory service that can be reached while up.
func switchedClient(t *testing.T, up *atomic.Bool) *botwire.Client {
	t.Helper()
	service, err := selfhost.Open(t.Context(), selfhost.Options{Path: filepath.Join(t.TempDir(), "memory.db")})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service.Handler())
	client := botwire.NewClient(botwire.Options{
		URL: &url.URL{Scheme: "http", Host: "localhost"}, Timeout: 10 * time.Second, Concurrency: 4, Headers: http.Header{},
		Dial: func(ctx context.Context) (net.Conn, error) {
			if !up.Load() {
				return nil, errors.New("down")
			}
			return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
		},
	})
	t.Cleanup(func() {
		client.Close()
		server.Close()
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}
