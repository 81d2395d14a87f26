package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/trace"
)

// verb is an operation of the memory API, as the metrics name it.
type verb uint8

const (
	noVerb verb = iota // the request is none of the memory API's
	getEntry
	putEntry
	deleteEntry
	listKeys
	verbs // their number
)

var verbNames = [verbs]string{getEntry: "get", putEntry: "put", deleteEntry: "delete", listKeys: "list"}

// verbOf is what a method does to an entry.
func verbOf(method string) verb {
	switch method {
	case http.MethodGet:
		return getEntry
	case http.MethodPut:
		return putEntry
	case http.MethodDelete:
		return deleteEntry
	}
	return noVerb
}

// outcome is what became of a request. The first ones are the sources of reads.
type outcome uint8

const (
	wasAcknowledged  = outcome(sources) + iota // the write is durable here
	wasAwaited                                 // the same, and the caller has waited for upstream
	wasThrough                                 // upstream has carried the write out
	wasRefused                                 // the request itself is refused, here or by upstream
	wasFull                                    // the disk or the journal has no room
	wasNamespaceFull                           // the namespace holds as much as it may
	wasUnavailable                             // upstream would have to be asked, and cannot be
	wasFailed                                  // the daemon's own fault
	wasEnded                                   // the daemon stops, or the caller has gone
	outcomes                                   // their number
)

var outcomeNames = func() (names [outcomes]string) {
	for from, of := range sourceNames {
		names[from] = of.label
	}
	for o, name := range map[outcome]string{
		wasAcknowledged: "acknowledged", wasAwaited: "awaited", wasThrough: "through", wasRefused: "refused", wasFull: "full",
		wasNamespaceFull: "namespace_full", wasUnavailable: "unavailable", wasFailed: "failed", wasEnded: "ended",
	} {
		names[o] = name
	}
	return names
}()

// call is a request on its way: its operation, and its outcome.
type call struct {
	verb    verb
	outcome outcome
	began   time.Time
	prefers time.Duration // to wait for upstream, by a write that goes through for that; else 0
	trace   trace.Context
	span    trace.Span   // nil if nobody makes spans
	seen    *observation // nil if nobody wants to see the request
}

// Tracer makes spans of the requests of the memory API.
type Tracer interface {
	// Start begins the span of an operation on a namespace at a time, under the caller's own span
	// if it has one.
	Start(operation, namespace string, parent trace.Context, began time.Time) trace.Span
}

// enter begins the call's span.
func (c *call) enter(m *memory, v verb, namespace string) {
	c.verb = v
	if m.tracer != nil && v != noVerb {
		c.span = m.tracer.Start(verbNames[v], namespace, c.trace, c.began)
		c.trace = c.span.Context()
	}
}

// leave measures a call that has been answered.
func (c *call) leave(m *memory) {
	m.metrics.latencies.observe(c)
	if c.span != nil {
		c.span.End(outcomeNames[c.outcome], c.outcome >= wasRefused)
	}
}

// traced asks upstream as a part of a caller's trace. Others who join in have traces of their own.
type traced struct {
	resource
	trace trace.Context
}

// of is the resource for the caller.
func (c *call) of(from resource) resource {
	if !c.trace.Given() {
		return from
	}
	return &traced{from, c.trace}
}

func (t *traced) ask(ctx context.Context, waitOutOutage bool) (take func() (fetched, error), err error) {
	return t.resource.ask(trace.With(ctx, t.trace), waitOutOutage)
}
