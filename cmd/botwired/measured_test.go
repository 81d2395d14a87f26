package main

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// traceEngine records the traces of its requests.
type traceEngine struct {
	traces []trace.Context
	err    error
}

func (e *traceEngine) note(ctx context.Context) error {
	e.traces = append(e.traces, trace.From(ctx))
	return e.err
}

func (e *traceEngine) Exact() bool { return true }

func (e *traceEngine) Named(string) bool { return true }

func (e *traceEngine) Known(journal.ID) (upstream.Version, bool) {
	return upstream.Version{Revision: 7}, true
}

func (e *traceEngine) Get(ctx context.Context, _ journal.ID) (upstream.Version, error) {
	return upstream.Version{Revision: 8}, e.note(ctx)
}

func (e *traceEngine) List(ctx context.Context, _ string) ([]journal.Row, bool, error) {
	return nil, true, e.note(ctx)
}

func (e *traceEngine) Swap(ctx context.Context, p upstream.Proposal) (upstream.Version, error) {
	return upstream.Version{Revision: p.Over.Revision + 1}, e.note(ctx)
}

// Requests upstream are counted by outcome, and a write carries its caller's trace as long as that is
// known.
func TestRequestsUpstreamAreMeasured(t *testing.T) {
	times, traces, engine := metrics.New(metrics.Build{}).UpstreamRequests, trace.NewWrites(), &traceEngine{}
	m, id := measure(upstream.Backend{Engine: engine}, traces, nil, times), journal.ID{Namespace: "n", Key: "k"}
	caller := trace.Context{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	traces.Note(id.String(), 0, caller)
	requests := func() {
		v, err1 := m.Get(t.Context(), id)
		_, _, err2 := m.List(t.Context(), "n")
		put, err3 := m.Swap(t.Context(), upstream.Proposal{ID: id, Op: journal.Put, Over: v})
		_, err4 := m.Swap(t.Context(), upstream.Proposal{ID: id, Op: journal.Delete, Over: put})
		for _, err := range []error{err1, err2, err3, err4} {
			if !errors.Is(err, engine.err) {
				t.Errorf("%v, want %v", err, engine.err)
			}
		}
		if v.Revision != 8 || put.Revision != 9 {
			t.Errorf("%+v, then %+v", v, put)
		}
	}
	requests()
	engine.err = &upstream.Error{Verdict: upstream.Throttled}
	requests()
	engine.err = errors.New("of its own")
	requests()
	engine.err = &upstream.Conflict{} // not an upstream failure
	requests()
	if v, ok := m.Known(id); v.Revision != 7 || !ok || !m.Exact() {
		t.Errorf("known: %+v, %v", v, ok)
	}
	none := trace.Context{}
	if diff := cmp.Diff([]trace.Context{none, none, caller, caller}, engine.traces[:4]); diff != "" {
		t.Errorf("traces (-want +got):\n%s", diff)
	}
	for _, operation := range []string{"get", "list", "put", "delete"} {
		for _, outcome := range []string{"confirmed", "throttled", "unanswered", "conflict"} {
			if n := times.Of(operation, outcome).Count(); n != 1 {
				t.Errorf("%s %s: %d measured, want 1", operation, outcome, n)
			}
		}
	}
}
