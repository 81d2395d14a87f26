package main

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/telemetry"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

type watch struct{ upstream.View }

// State implements [surface.Watch].
func (w watch) State() api.WatchState { return api.WatchState(w.View.State()) }

func purgeOf(b upstream.Backend) func(context.Context, journal.ID) error {
	return func(ctx context.Context, of journal.ID) error { return unavailable(b.Purge(ctx, of)) }
}

// unavailable makes an engine's error one that the surface can answer with.
func unavailable(err error) error {
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		return &upstream.Unavailable{Wait: max(failed.RetryAfter, time.Second), Reason: failed.Reason}
	}
	return err
}

func revisionsOf(b upstream.Backend) func(context.Context, journal.ID) ([]api.Revision, error) {
	return func(ctx context.Context, id journal.ID) ([]api.Revision, error) {
		versions, err := b.Revisions(ctx, id)
		states := make([]api.Revision, len(versions))
		for i := range versions {
			v := &versions[i]
			d := api.Revision{
				Revision: &v.Revision, State: "settled", Op: journal.Delete.String(),
				UpdatedAt: v.WrittenAt, Host: v.Writer.Host, Here: v.Writer.Host == b.Host, Author: v.Author,
			}
			if d.Here && v.Writer.Seq != 0 {
				d.Seq = &v.Writer.Seq
			}
			if !v.Deleted {
				d.Op, d.CreatedAt, d.Value, d.Bytes = journal.Put.String(), &v.CreatedAt, &v.Value, wire.CodePoints(v.Value)
			}
			states[i] = d
		}
		return states, unavailable(err)
	}
}

// measured is an engine that measures its requests and passes each write's trace on.
type measured struct {
	upstream.Engine // Exact and Known make no request
	traces          *trace.Writes
	requests        *metrics.Times
	tracer          *telemetry.Tracer // nil: no spans
}

func measure(b upstream.Backend, traces *trace.Writes, tracer *telemetry.Tracer, requests *metrics.Times) upstream.Backend {
	b.Engine = &measured{b.Engine, traces, requests, tracer}
	return b
}

// do makes one request. waited says that the write waited in the journal, and its caller was answered
// before. A request that panics is not measured.
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
	m.requests.Of(operation, outcome).Observe(time.Since(began))
	if span != nil {
		span.End(outcome, err != nil)
	}
	return err
}

// outcomeOf returns the outcome of a request for the metrics: its verdict, as [upstream.Engine] defines
// it, or "conflict".
func outcomeOf(err error) string {
	if err == nil {
		return upstream.Confirmed.String()
	}
	if _, ok := errors.AsType[*upstream.Conflict](err); ok {
		return "conflict"
	}
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		return failed.Verdict.String()
	}
	return upstream.Unanswered.String()
}

// Get implements [upstream.Engine].
func (m *measured) Get(ctx context.Context, id journal.ID) (v upstream.Version, err error) {
	err = m.do(ctx, "get", id.Namespace, false, func(ctx context.Context) error {
		v, err = m.Engine.Get(ctx, id)
		return err
	})
	return v, err
}

// List implements [upstream.Engine].
func (m *measured) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	err = m.do(ctx, "list", namespace, false, func(ctx context.Context) error {
		rows, complete, err = m.Engine.List(ctx, namespace)
		return err
	})
	return rows, complete, err
}

// Swap implements [upstream.Engine]. It is measured as a put or a delete.
func (m *measured) Swap(ctx context.Context, p upstream.Proposal) (v upstream.Version, err error) {
	caller, waited := m.traces.Of(p.String(), p.Writer.Seq)
	operation := "put"
	if p.Op == journal.Delete {
		operation = "delete"
	}
	err = m.do(trace.With(ctx, caller), operation, p.Namespace, waited, func(ctx context.Context) error {
		v, err = m.Engine.Swap(ctx, p)
		return err
	})
	return v, err
}
