package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/drill"
	"github.com/botwired/botwired/journal"
)

// withDrill has a server drill as told.
func withDrill(rehearse func(ctx context.Context, r DrillRequest, emit func(event any)) error) func(*journal.Options, *Options) {
	return func(_ *journal.Options, opts *Options) { opts.Drill = rehearse }
}

// drilled are events with all that they can tell.
var drilled = func() []drill.Event {
	seconds, by := 1.5, uint64(3)
	phase := drill.Phase{Name: "away", Upstream: "it is away", Recovery: &seconds, Down: &seconds}
	finding := drill.Finding{Contract: 6, Phase: "away", Namespace: "n", Key: "k", Text: "a read went backwards", Receipts: []drill.Receipt{
		{Seq: 2, Namespace: "n", Key: "k", Op: "put", State: "superseded", SettledAt: &seconds, By: &by, Reason: "by a newer write"},
		{Seq: 3, Namespace: "n", Key: "k", Op: "put", State: "settled", SettledAt: &seconds},
		{Seq: 4, Namespace: "n", Key: "k", Op: "put", State: "dead", SettledAt: &seconds},
		{Seq: 5, Namespace: "n", Key: "k", Op: "delete", State: "pending"},
	}}
	audit := drill.Audit{
		Namespace: drillNamespace, Phases: []drill.Phase{phase}, Findings: []drill.Finding{finding}, Verdict: "one thing happened that must not",
	}
	return []drill.Event{
		{Event: drill.EventStarted, At: 1.5, Name: drillNamespace, Steps: []string{"away"}, Seconds: 16},
		{Event: drill.EventPhase, At: 1.5, Name: "away", Text: "upstream is away", Seconds: 4},
		{Event: drill.EventPhaseEnded, At: 1.5, Name: "away", Phase: &phase},
		{Event: drill.EventFinding, At: 1.5, Text: finding.Text, Finding: &finding},
		{Event: drill.EventSettling, At: 1.5, Seconds: 30},
		{Event: drill.EventAudit, At: 1.5, Text: audit.Verdict, Audit: &audit},
	}
}()

// wantFailedDrill wants the last event to say why a drill could not go on, and when.
func wantFailedDrill(t *testing.T, w *httptest.ResponseRecorder, why error) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	var last drill.Event
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if last.Event != drill.EventFailed || last.Text != why.Error() || last.At < 1e8 {
		t.Errorf("the last line is %s", lines[len(lines)-1])
	}
}

func TestDrillTellsItsEvents(t *testing.T) {
	var asked DrillRequest
	s := newSidecar(t, withDrill(func(_ context.Context, r DrillRequest, emit func(any)) error {
		asked = r
		for _, e := range drilled {
			emit(e)
		}
		return nil
	}))
	w := s.do(http.MethodPost, "/_botwired/drill?namespace=botwired-drill-2&for=20s&seed=7", "")
	wantStatus(t, w, http.StatusOK)
	wantHeader(t, w, "Content-Type", "application/jsonl")
	var got []string
	for line := range strings.Lines(w.Body.String()) {
		var e drill.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		got = append(got, e.Event)
	}
	if want := []string{"started", "phase", "phase_ended", "finding", "settling", "audit"}; !slices.Equal(got, want) {
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
			emit(drill.Event{Event: drill.EventStarted, At: 1.5})
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
	wantFailedDrill(t, w, ErrDrilling)
	wantDetail(t, newSidecar(t).do(http.MethodPost, "/_botwired/drill", ""), http.StatusNotFound)
}

// A drill ends when its caller leaves, and the answer waits until the drill has undone everything.
func TestDrillEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		undone := false
		began := make(chan struct{})
		s := newSidecar(t, withDrill(func(ctx context.Context, _ DrillRequest, emit func(any)) error {
			emit(drill.Event{Event: drill.EventStarted, At: 1.5})
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
		s.serve(s.server, httptest.NewRecorder(), r)
		if !undone {
			t.Error("the answer has ended before the drill")
		}
	})
}

// A drill would fail upstream's writes and make new ones while botwired flushes.
func TestDrillEndsAsBotwiredStops(t *testing.T) {
	began := make(chan struct{}, 1)
	s := newSidecar(t, withDrill(func(ctx context.Context, _ DrillRequest, emit func(any)) error {
		emit(drill.Event{Event: drill.EventStarted, At: 1.5})
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
		wantFailedDrill(t, w, errDrillStopped)
	}
}
