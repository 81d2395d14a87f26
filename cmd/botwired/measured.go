package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/botwired/botwired/internal/telemetry"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/upstream"
)

// measured is an engine whose requests are measured, and whose writes go on with their traces.
type measured struct {
	engine   upstream.Engine
	traces   *trace.Writes
	requests *prometheus.HistogramVec
	tracer   *telemetry.Tracer // nil makes no spans
}

func measure(engine upstream.Engine, traces *trace.Writes, tracer *telemetry.Tracer, registry *prometheus.Registry) *measured {
	requests := prometheus.NewHistogramVec(
		proxy.LatencyOpts("botwired_upstream_request_seconds", "How long requests upstream took, by operation and outcome."),
		[]string{"operation", "outcome"})
	registry.MustRegister(requests)
	return &measured{engine, traces, requests, tracer}
}

// do makes one request. waited says that the request was put off, and its caller has an answer. If
// the request panics, there is nothing to measure.
func (m *measured) do(
	ctx context.Context, operation, namespace string, waited bool, request func(context.Context) error,
) error {
	var span trace.Span
	if m.tracer != nil {
		span = m.tracer.StartUpstream(operation, namespace, trace.From(ctx), waited)
		ctx = trace.With(ctx, span.Context())
	}
	began := time.Now()
	err := request(ctx)
	outcome := outcomeOf(err)
	m.requests.WithLabelValues(operation, outcome).Observe(time.Since(began).Seconds())
	if span != nil {
		span.End(outcome, err != nil)
	}
	return err
}

// verdictOf is what an engine's error means, as [upstream.Engine] says.
func verdictOf(err error) upstream.Verdict {
	if err == nil {
		return upstream.Confirmed
	}
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		return failed.Verdict
	}
	return upstream.Unanswered
}

// traced makes a write a part of the trace of its caller.
func (m *measured) traced(ctx context.Context, id journal.ID) (_ context.Context, waited bool) {
	c, waited := m.traces.Of(id.String(), upstream.SeqOf(ctx))
	return trace.With(ctx, c), waited
}

// Get implements [upstream.Engine].
func (m *measured) Get(ctx context.Context, id journal.ID) (o *journal.Observation, err error) {
	err = m.do(ctx, "get", id.Namespace, false, func(ctx context.Context) error {
		o, err = m.engine.Get(ctx, id)
		return err
	})
	return o, err
}

// List implements [upstream.Engine].
func (m *measured) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	err = m.do(ctx, "list", namespace, false, func(ctx context.Context) error {
		rows, complete, err = m.engine.List(ctx, namespace)
		return err
	})
	return rows, complete, err
}

// Put implements [upstream.Engine].
func (m *measured) Put(ctx context.Context, id journal.ID, value string) error {
	ctx, waited := m.traced(ctx, id)
	return m.do(ctx, "put", id.Namespace, waited, func(ctx context.Context) error { return m.engine.Put(ctx, id, value) })
}

// Delete implements [upstream.Engine].
func (m *measured) Delete(ctx context.Context, id journal.ID) (held bool, err error) {
	ctx, waited := m.traced(ctx, id)
	err = m.do(ctx, "delete", id.Namespace, waited, func(ctx context.Context) error {
		held, err = m.engine.Delete(ctx, id)
		return err
	})
	return held, err
}
