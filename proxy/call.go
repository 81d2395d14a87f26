package proxy

import (
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/surface"
)

func verbOf(method string) memory.Verb {
	switch method {
	case http.MethodGet:
		return memory.GetEntry
	case http.MethodPut:
		return memory.PutEntry
	case http.MethodDelete:
		return memory.DeleteEntry
	}
	return memory.NoVerb
}

type call struct {
	verb      memory.Verb
	namespace string
	outcome   memory.Outcome
	began     time.Time
	trace     trace.Context
	span      trace.Span           // nil without a tracer
	seen      *surface.Observation // nil if nobody observes the request
}

// Tracer makes spans for requests of the memory API.
type Tracer interface {
	// Start begins the span of an operation on a namespace. Its parent is the caller's span, if there is one.
	Start(operation, namespace string, parent trace.Context, began time.Time) trace.Span
}

// enter starts the call's span. Requests upstream and writes become its children.
func (s *Server) enter(c *call, v memory.Verb, namespace string) {
	c.verb, c.namespace = v, namespace
	if s.tracer != nil && v != memory.NoVerb {
		c.span = s.tracer.Start(v.String(), namespace, c.trace, c.began)
		c.trace = c.span.Context()
	}
}

func (s *Server) count(c *call, r *memory.Result) {
	c.outcome = r.Outcome()
	c.seen.Result(r)
}

func (c *call) refuse(w http.ResponseWriter, refusal *wire.Refusal) {
	refusal.Write(w)
	c.seen.End(refusal.Status, len(refusal.Body))
}

func (s *Server) leave(c *call) {
	s.surface.Measures.Observe(c.verb, c.outcome, time.Since(c.began))
	if c.span != nil {
		c.span.End(c.outcome.String(), c.outcome >= memory.WasRefused)
	}
}
