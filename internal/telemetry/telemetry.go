// Package telemetry exports spans to an OpenTelemetry collector, if the standard environment variables
// name one.
//
// It defines the attributes of a span: the GenAI conventions for memory, as of 2026 still in
// development (https://github.com/open-telemetry/semantic-conventions-genai). A span never holds a
// value or a key. Nothing waits for the collector: spans beyond a bounded queue are dropped, and so are
// spans that a hanging collector has not accepted when the daemon ends.
//
// The package makes the requests to the collector itself: the SDK's own exporter needs gRPC and
// html/template, which make the program a quarter larger.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otrace "go.opentelemetry.io/otel/trace"

	"github.com/botwired/botwired/internal/trace"
)

// complainEvery is the minimum time between two log lines about a collector that accepts no spans.
const complainEvery = 10 * time.Minute

// Wanted reports whether the environment asks for spans. An error says what is wrong in the
// environment.
func Wanted(getenv func(string) string) (bool, error) {
	endpoint := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if endpoint == "" {
		endpoint = getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is no URL such as http://127.0.0.1:4318")
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := getenv(name); protocol != "" && protocol != "http/protobuf" {
			return false, fmt.Errorf("%s=%q: botwired speaks http/protobuf only", name, protocol)
		}
	}
	return true, nil
}

// Tracer makes spans. Its methods may be called concurrently.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   otrace.Tracer
	sampler  sampler
	abort    context.CancelFunc
}

// Open returns a tracer configured by the environment: see [Wanted].
func Open(ctx context.Context, version string, logger *slog.Logger) (*Tracer, error) {
	collector, err := newCollector(os.Getenv)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, collector)
	if err != nil {
		return nil, fmt.Errorf("opentelemetry: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "botwired"), attribute.String("service.version", version),
	), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("opentelemetry: %w", err)
	}
	var complained atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now, last := time.Now().UnixNano(), complained.Load()
		if now-last >= int64(complainEvery) && complained.CompareAndSwap(last, now) {
			logger.Warn("the OpenTelemetry collector does not take spans: they are dropped", "error", err)
		}
	}))
	closing, abort := context.WithCancel(context.Background())
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(&abortable{exporter, closing}), sdk.WithResource(about),
		sdk.WithSampler(sdk.AlwaysSample())) // the tracer's own sampler has already decided
	return &Tracer{
		provider: provider, tracer: provider.Tracer("github.com/botwired/botwired", otrace.WithInstrumentationVersion(version)),
		sampler: newSampler(os.Getenv), abort: abort,
	}, nil
}

// Close exports the remaining spans for at most the given time, and drops the others.
func (t *Tracer) Close(within time.Duration) {
	defer t.abort()
	defer time.AfterFunc(within, t.abort).Stop()
	_ = t.provider.Shutdown(context.Background()) // it ends as soon as the exports do
}

// abortable ends its exports when the tracer aborts.
type abortable struct {
	sdk.SpanExporter
	closing context.Context // ends then
}

func (e *abortable) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.closing, cancel)()
	return e.SpanExporter.ExportSpans(ctx, spans)
}

// memoryOperations maps operations to those of the conventions, where reading one entry and listing are
// both a search.
var memoryOperations = map[string]string{
	"get": "search_memory", "list": "search_memory", "put": "upsert_memory", "delete": "delete_memory",
}

// Start begins the span of a caller's request at the given time, under the caller's own span if there
// is one. The namespace is the memory store.
func (t *Tracer) Start(operation, namespace string, parent trace.Context, began time.Time) trace.Span {
	if !t.sampler.samples(parent) {
		return newUnsampled(parent)
	}
	return t.start(parent, operation, namespace, otrace.WithSpanKind(otrace.SpanKindServer), otrace.WithTimestamp(began))
}

// StartUpstream begins the span of a request upstream. The span of a write that waited has its own
// trace, with a link to the caller's, and is sampled if the caller's is.
func (t *Tracer) StartUpstream(operation, namespace string, caller trace.Context, waited bool) trace.Span {
	parent, options := caller, []otrace.SpanStartOption{otrace.WithSpanKind(otrace.SpanKindClient)}
	if waited && caller.Given() {
		parent, options = trace.Context{}, append(options, otrace.WithLinks(otrace.LinkFromContext(remote(caller))))
	}
	if !t.sampler.samples(caller) {
		return newUnsampled(parent)
	}
	return t.start(parent, operation, namespace, options...)
}

// start begins a sampled span.
func (t *Tracer) start(parent trace.Context, operation, namespace string, options ...otrace.SpanStartOption) trace.Span {
	name := memoryOperations[operation]
	options = append(options, otrace.WithAttributes(
		attribute.String("gen_ai.operation.name", name), attribute.String("gen_ai.memory.store.id", namespace),
		attribute.String("botwired.operation", operation)))
	_, s := t.tracer.Start(remote(parent), name, options...)
	return &span{s}
}

// remote returns a context in which new spans are children of the caller's.
func remote(c trace.Context) context.Context {
	if !c.Given() {
		return context.Background()
	}
	return propagation.TraceContext{}.Extract(context.Background(), carrier{&c})
}

// carrier gives access to the headers of a trace context.
type carrier struct{ *trace.Context }

// Get implements [propagation.TextMapCarrier].
func (c carrier) Get(name string) string {
	if name == "traceparent" {
		return c.Parent
	}
	return c.State
}

// Set implements [propagation.TextMapCarrier].
func (c carrier) Set(name, value string) {
	if name == "traceparent" {
		c.Parent = value
		return
	}
	c.State = value
}

// Keys implements [propagation.TextMapCarrier].
func (c carrier) Keys() []string { return []string{"traceparent", "tracestate"} }

type span struct{ span otrace.Span }

// Context implements [trace.Span].
func (s *span) Context() trace.Context {
	var place trace.Context
	propagation.TraceContext{}.Inject(otrace.ContextWithSpan(context.Background(), s.span), carrier{&place})
	return place
}

// End implements [trace.Span].
func (s *span) End(outcome string, failed bool) {
	s.span.SetAttributes(attribute.String("botwired.outcome", outcome))
	if failed {
		s.span.SetAttributes(attribute.String("error.type", outcome))
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
