package main

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// traceEngine notes the traces that its requests are a part of.
type traceEngine struct {
	traces []trace.Context
	err    error
}

func (e *traceEngine) note(ctx context.Context) error {
	e.traces = append(e.traces, trace.From(ctx))
	return e.err
}

func (e *traceEngine) Get(ctx context.Context, _ journal.ID) (*journal.Observation, error) {
	return nil, e.note(ctx)
}

func (e *traceEngine) List(ctx context.Context, _ string) ([]journal.Row, bool, error) {
	return nil, true, e.note(ctx)
}

func (e *traceEngine) Put(ctx context.Context, _ journal.ID, _ string) error { return e.note(ctx) }

func (e *traceEngine) Delete(ctx context.Context, _ journal.ID) (bool, error) {
	return true, e.note(ctx)
}

// Requests upstream are measured by what they mean, and a write that is still remembered goes on
// with the trace of its caller.
func TestRequestsUpstreamAreMeasured(t *testing.T) {
	registry, traces, engine := prometheus.NewRegistry(), trace.NewWrites(), &traceEngine{}
	m, id := measure(engine, traces, nil, registry), journal.ID{Namespace: "n", Key: "k"}
	caller := trace.Context{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	traces.Note(id.String(), 0, caller)
	requests := func() {
		_, err1 := m.Get(t.Context(), id)
		_, _, err2 := m.List(t.Context(), "n")
		err3 := m.Put(t.Context(), id, "v")
		_, err4 := m.Delete(t.Context(), id)
		for _, err := range []error{err1, err2, err3, err4} {
			if !errors.Is(err, engine.err) {
				t.Errorf("%v, want %v", err, engine.err)
			}
		}
	}
	requests()
	engine.err = &upstream.Error{Verdict: upstream.Throttled}
	requests()
	engine.err = errors.New("of its own")
	requests()
	none := trace.Context{}
	if diff := cmp.Diff([]trace.Context{none, none, caller, caller}, engine.traces[:4]); diff != "" {
		t.Errorf("traces (-want +got):\n%s", diff)
	}
	got := make(map[string]uint64)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range families[0].GetMetric() {
		got[each.GetLabel()[0].GetValue()+" "+each.GetLabel()[1].GetValue()] = each.GetHistogram().GetSampleCount()
	}
	want := make(map[string]uint64)
	for _, operation := range []string{"get", "list", "put", "delete"} {
		for _, outcome := range []string{"confirmed", "throttled", "unanswered"} {
			want[operation+" "+outcome] = 1
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
}
