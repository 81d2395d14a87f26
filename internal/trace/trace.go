// Package trace carries W3C trace context (https://www.w3.org/TR/trace-context/) from a caller's
// request to the upstream requests made for it. It starts no spans of its own.
package trace

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// maxState bounds a tracestate, in bytes: programs must pass on at least this many, and need not pass
// on more (section 3.3.1.5).
const maxState = 512

// Context is a position in a trace: the values of the headers traceparent and tracestate. The zero
// Context means that there is none.
type Context struct{ Parent, State string }

// Given reports whether there is a context.
func (c Context) Given() bool { return c.Parent != "" }

// Parse returns the context in two headers. It ignores a malformed traceparent, and a tracestate that
// is too long or has no valid traceparent.
func Parse(parent, state string) Context {
	if !isParent(parent) {
		return Context{}
	}
	if len(state) > maxState {
		state = ""
	}
	return Context{parent, state}
}

// Where each part of a traceparent ends: "00-<trace-id>-<parent-id>-<flags>".
const (
	versionEnds = 2
	traceEnds   = versionEnds + 1 + 32
	spanEnds    = traceEnds + 1 + 16
	parentSize  = spanEnds + 1 + 2
)

// isParent validates a traceparent (section 3.2). Versions after 00 may be longer.
func isParent(s string) bool {
	if len(s) < parentSize || s[versionEnds] != '-' || s[traceEnds] != '-' || s[spanEnds] != '-' {
		return false
	}
	version, trace, span, flags := s[:versionEnds], s[versionEnds+1:traceEnds], s[traceEnds+1:spanEnds], s[spanEnds+1:parentSize]
	if len(s) > parentSize && (version == "00" || s[parentSize] != '-' || len(s) > maxState) {
		return false
	}
	return isHex(version) && version != "ff" && isID(trace) && isID(span) && isHex(flags)
}

func isID(s string) bool { return isHex(s) && strings.Trim(s, "0") != "" }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// FromHeader returns the context of a request.
func FromHeader(h http.Header) Context {
	parents := h["Traceparent"]
	if len(parents) != 1 {
		return Context{}
	}
	return Parse(parents[0], strings.Join(h["Tracestate"], ","))
}

// Set writes the context, if there is one, into the header of a request.
func (c Context) Set(h http.Header) {
	if !c.Given() {
		return
	}
	h["Traceparent"] = []string{c.Parent}
	if c.State != "" {
		h["Tracestate"] = []string{c.State}
	}
}

type contextKey struct{}

// With adds a trace context to the context of a request upstream.
func With(ctx context.Context, c Context) context.Context {
	if !c.Given() {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns the trace context that With has added, or the zero Context.
func From(ctx context.Context) Context {
	c, _ := ctx.Value(contextKey{}).(Context)
	return c
}

// Span is an active span of a trace.
type Span interface {
	// Context returns the trace context for requests made on behalf of the span. Call it at most once:
	// an unsampled span may return another one each time.
	Context() Context
	// End ends the span. The outcome is one that metrics name.
	End(outcome string, failed bool)
}

// writesKept bounds the remembered writes, at about 1 MiB. A write loses its context once the writes of
// writesKept other entries have followed.
const writesKept = 4096

// Writes remembers the contexts of writes that wait to be sent. Its methods may be called concurrently.
type Writes struct {
	mu   sync.Mutex // guards the fields below
	of   map[string]traced
	next int
	ring [writesKept]string
}

// traced is an entry's newest write that had a context.
type traced struct {
	seq     uint64
	context Context
}

// NewWrites returns an empty Writes.
func NewWrites() *Writes { return &Writes{of: make(map[string]traced)} }

// Note remembers the context of an entry's newest write. seq is 0 for a write that has no number yet.
func (w *Writes) Note(entry string, seq uint64, c Context) {
	if !c.Given() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.of[entry]; ok {
		if seq == 0 || seq > last.seq { // with two concurrent callers, the later number counts
			w.of[entry] = traced{seq, c}
		}
		return
	}
	if oldest := w.ring[w.next]; oldest != "" {
		delete(w.of, oldest)
	}
	w.ring[w.next] = entry
	w.of[entry] = traced{seq, c}
	w.next = (w.next + 1) % writesKept
}

// Of returns the context of an entry's write; none if it had none, or was forgotten. waited is true for
// a write that had a number: its caller has been answered.
func (w *Writes) Of(entry string, seq uint64) (c Context, waited bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.of[entry]
	if !ok || last.seq != 0 && last.seq != seq {
		return Context{}, false
	}
	return last.context, last.seq != 0
}

// Forget drops an entry's write with this context: the write is complete.
func (w *Writes) Forget(entry string, c Context) {
	if !c.Given() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[entry].context == c {
		delete(w.of, entry)
	}
}
