package main

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/telemetry"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
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

// versionsOf returns the versions that an engine keeps as the memory takes them.
func versionsOf(b upstream.Backend) func(context.Context, journal.ID) ([]memory.Version, error) {
	return func(ctx context.Context, id journal.ID) ([]memory.Version, error) {
		kept, err := b.Revisions(ctx, id)
		versions := make([]memory.Version, len(kept))
		for i := range kept {
			of := &kept[i]
			v := memory.Version{
				Past: journal.Past{
					ID: id, Op: journal.Delete, WrittenAt: of.WrittenAt, State: journal.PastSettled, Author: of.Author, Host: of.Writer.Host,
				},
				Revision: of.Revision, Here: of.Writer.Host == b.Host,
			}
			if v.Here {
				v.Seq = of.Writer.Seq
			}
			if !of.Deleted {
				v.Op, v.Value, v.CreatedAt = journal.Put, of.Value, of.CreatedAt
			}
			versions[i] = v
		}
		return versions, unavailable(err)
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
