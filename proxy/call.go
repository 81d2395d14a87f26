package proxy

import (
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/trace"
)

// verbOf returns what a method does to an entry.
func verbOf(method string) Verb {
	switch method {
	case http.MethodGet:
		return GetEntry
	case http.MethodPut:
		return PutEntry
	case http.MethodDelete:
		return DeleteEntry
	}
	return NoVerb
}

// call is a request on its way, for those who measure it.
type call struct {
	verb    Verb
	outcome Outcome
	began   time.Time
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

// enter begins the call's span. Requests upstream and writes become parts of it.
func (s *Server) enter(c *call, v Verb, namespace string) {
	c.verb = v
	if s.tracer != nil && v != NoVerb {
		c.span = s.tracer.Start(v.String(), namespace, c.trace, c.began)
		c.trace = c.span.Context()
	}
}

// count counts a result.
func (s *Server) count(c *call, r *Result) {
	c.outcome = r.Outcome()
	c.seen.result(r)
}

// leave measures a call that has been answered.
func (s *Server) leave(c *call) {
	s.measures.observe(c.verb, c.outcome, time.Since(c.began))
	if c.span != nil {
		c.span.End(c.outcome.String(), c.outcome >= WasRefused)
	}
}
