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

// traceVersions notes the traces that its requests are a part of.
type traceVersions struct {
	traceEngine
}

func (e *traceVersions) Known(journal.ID) (upstream.Version, bool) {
	return upstream.Version{Revision: 7}, true
}

func (e *traceVersions) Version(ctx context.Context, _ journal.ID) (upstream.Version, error) {
	return upstream.Version{Revision: 8}, e.note(ctx)
}

func (e *traceVersions) Swap(ctx context.Context, p upstream.Proposal) (upstream.Version, error) {
	return upstream.Version{Revision: p.Over.Revision + 1}, e.note(ctx)
}

// The requests of an engine with revisions are measured as others are, and a conflict is no failure
// of upstream's.
func TestVersionsAreMeasured(t *testing.T) {
	registry, traces, engine := prometheus.NewRegistry(), trace.NewWrites(), &traceVersions{}
	m := &measuredVersions{measure(engine, traces, nil, registry), engine}
	id := journal.ID{Namespace: "n", Key: "k"}
	caller := trace.Context{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	traces.Note(id.String(), 0, caller)
	requests := func() {
		v, err1 := m.Version(t.Context(), id)
		put, err2 := m.Swap(t.Context(), upstream.Proposal{ID: id, Op: journal.Put, Over: v})
		_, err3 := m.Swap(t.Context(), upstream.Proposal{ID: id, Op: journal.Delete, Over: put})
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, engine.err) {
				t.Errorf("%v, want %v", err, engine.err)
			}
		}
		if v.Revision != 8 || put.Revision != 9 {
			t.Errorf("%+v, then %+v", v, put)
		}
	}
	requests()
	engine.err = &upstream.Conflict{}
	requests()
	engine.err = &upstream.Error{Verdict: upstream.Unsent}
	requests()
	if v, ok := m.Known(id); v.Revision != 7 || !ok {
		t.Errorf("known: %+v, %v", v, ok)
	}
	if diff := cmp.Diff([]trace.Context{{}, caller, caller}, engine.traces[:3]); diff != "" {
		t.Errorf("traces (-want +got):\n%s", diff)
	}
	got, want := make(map[string]uint64), make(map[string]uint64)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range families[0].GetMetric() {
		got[each.GetLabel()[0].GetValue()+" "+each.GetLabel()[1].GetValue()] = each.GetHistogram().GetSampleCount()
	}
	for _, operation := range []string{"get", "put", "delete"} {
		for _, outcome := range []string{"confirmed", "conflict", "unsent"} {
			want[operation+" "+outcome] = 1
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
}
