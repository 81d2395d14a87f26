package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// withDrill has a server drill as told.
func withDrill(drill func(ctx context.Context, r DrillRequest, emit func(event any)) error) func(*journal.Options, *Options) {
	return func(_ *journal.Options, opts *Options) { opts.Drill = drill }
}

func TestDrillTellsItsEvents(t *testing.T) {
	var asked DrillRequest
	s := newSidecar(t, withDrill(func(_ context.Context, r DrillRequest, emit func(any)) error {
		asked = r
		emit(map[string]string{"event": "started"})
		emit(map[string]string{"event": "audit"})
		return nil
	}))
	w := s.do(http.MethodPost, "/_botwired/drill?namespace=botwired-drill-2&for=20s&seed=7", "")
	wantStatus(t, w, http.StatusOK)
	wantHeader(t, w, "Content-Type", "application/jsonl")
	if got, want := w.Body.String(), "{\"event\":\"started\"}\n{\"event\":\"audit\"}\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if diff := cmp.Diff(DrillRequest{Namespace: "botwired-drill-2", Seed: 7, Lasts: 20 * time.Second}, asked); diff != "" {
		t.Error(diff)
	}
	s.do(http.MethodPost, "/_botwired/drill?for=1s", "")
	if asked.Namespace != drillNamespace || asked.Lasts != minDrillTime {
		t.Errorf("by default: %+v", asked)
	}
}

func TestDrillRefusals(t *testing.T) {
	fails := errors.New("upstream is down")
	var begins bool
	s := newSidecar(t, withDrill(func(_ context.Context, _ DrillRequest, emit func(any)) error {
		if begins {
			emit(map[string]string{"event": "started"})
		}
		return fails
	}))
	post := func(query string) *httptest.ResponseRecorder {
		return s.do(http.MethodPost, "/_botwired/drill"+query, "")
	}
	wantDetail(t, post("?namespace=my-agent"), http.StatusBadRequest, drillNamespace)
	wantDetail(t, post("?seed=x"), http.StatusBadRequest, "whole number")
	wantDetail(t, post("?for=1h"), http.StatusBadRequest, "2m")
	wantDetail(t, post(""), http.StatusServiceUnavailable, "upstream is down")
	fails = ErrDrilling
	wantDetail(t, post(""), http.StatusConflict, "one at a time")
	begins = true
	w := post("")
	wantStatus(t, w, http.StatusOK)
	if want := "{\"event\":\"started\"}\n{\"event\":\"failed\",\"text\":\"" + ErrDrilling.Error() + "\"}\n"; w.Body.String() != want {
		t.Errorf("%q, want %q", w.Body, want)
	}
	wantDetail(t, newSidecar(t).do(http.MethodPost, "/_botwired/drill", ""), http.StatusNotFound)
}

// A drill ends when its caller leaves, and the answer waits until the drill has undone everything.
func TestDrillEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		undone := false
		began := make(chan struct{})
		s := newSidecar(t, withDrill(func(ctx context.Context, _ DrillRequest, emit func(any)) error {
			emit(map[string]string{"event": "started"})
			close(began)
			<-ctx.Done()
			time.Sleep(time.Second)
			undone = true
			return ctx.Err()
		}))
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-began
			leave()
		}()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/_botwired/drill", nil)
		s.server.ServeHTTP(httptest.NewRecorder(), r)
		if !undone {
			t.Error("the answer has ended before the drill")
		}
	})
}

// A drill would fail upstream's writes and make new ones while botwired flushes.
func TestDrillEndsAsBotwiredStops(t *testing.T) {
	began := make(chan struct{}, 1)
	s := newSidecar(t, withDrill(func(ctx context.Context, _ DrillRequest, emit func(any)) error {
		emit(map[string]string{"event": "started"})
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}))
	go func() {
		<-began
		s.server.BeginStop()
	}()
	for range 2 { // a later one, too
		w := s.do(http.MethodPost, "/_botwired/drill", "")
		wantStatus(t, w, http.StatusOK)
		if want := "{\"event\":\"failed\",\"text\":\"" + errDrillStopped.Error() + "\"}\n"; !strings.HasSuffix(w.Body.String(), want) {
			t.Errorf("%q, want %q at the end", w.Body, want)
		}
	}
}
