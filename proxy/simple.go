package proxy

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// AnswerSimple answers a simple request that the guard lets in, if it is a GET or a PUT
// of an entry: at once from memory or with an acknowledgement, and else later. It leaves
// any other to ServeHTTP, which answers all, these with the same bytes.
func (s *Server) AnswerSimple(r *fastpath.Request, dst []byte) (answer []byte, later fastpath.Later) {
	route := wire.ParseRoute(r.Path)
	isPut := r.Method == http.MethodPut && r.JSON
	if r.Query || route.Kind != wire.EntryRoute || r.Method != http.MethodGet && !isPut || !s.tasks.start() {
		return nil, nil
	}
	defer s.tasks.done()
	seen := s.surface.monitor.begin(r.Method, r.Path, route)
	began := time.Now()
	s.memory.callers.note(r.Agent, began)
	id := journal.ID{Namespace: route.Namespace, Key: route.Key}
	var c *call // nil while the request may prove to be a read from memory
	if isPut && s.memory.tracer != nil {
		c = s.begin(r, id.Namespace, began)
	}
	answer, rest, from, err := s.atOnce(id, r, c, seen, dst)
	if err != nil {
		rest = func(context.Context, http.ResponseWriter, *call) error { return err }
	}
	if rest != nil {
		if c == nil {
			c = s.begin(r, id.Namespace, began)
		}
		c.seen = seen
		return nil, s.later(r, c, rest)
	}
	seen.end(http.StatusOK)
	if c == nil {
		s.answered(r, id.Namespace, began, from)
		return answer, nil
	}
	c.outcome = from
	c.leave(s.memory)
	return answer, nil
}

// begin makes the call of a simple request.
func (s *Server) begin(r *fastpath.Request, namespace string, began time.Time) *call {
	c := &call{began: began, trace: traceOf(r)}
	c.enter(s.memory, verbOf(r.Method), namespace)
	return c
}

// answered measures a request that was answered at once. Nothing is done for it elsewhere, so nobody asks
// for the place of its span, and an unsampled span costs next to nothing.
func (s *Server) answered(r *fastpath.Request, namespace string, began time.Time, from outcome) {
	c := call{verb: verbOf(r.Method), outcome: from, began: began}
	if t := s.memory.tracer; t != nil {
		c.span = t.Start(verbNames[c.verb], namespace, traceOf(r), began)
	}
	c.leave(s.memory)
}

// BodyMatters reports whether the answer to a simple request depends on its body. A PUT of
// anything but an entry is refused whatever its body is.
func BodyMatters(r *fastpath.Request) bool { return wire.ParseRoute(r.Path).Kind == wire.EntryRoute }

// finish is the rest of the way of a request, for which upstream may be asked.
type finish func(ctx context.Context, w http.ResponseWriter, c *call) error

// atOnce answers as far as it can without waiting.
func (s *Server) atOnce(
	id journal.ID, r *fastpath.Request, c *call, seen *observation, dst []byte,
) (answer []byte, rest finish, from outcome, err error) {
	defer recoverPanic(s.logger, &err)
	if r.Method == http.MethodPut {
		answer, rest, err = s.memory.putSimple(id, r, c, seen, dst)
		return answer, rest, wasAcknowledged, err
	}
	return s.memory.getSimple(id, r.Date, seen, dst)
}

func (s *Server) later(r *fastpath.Request, c *call, rest finish) fastpath.Later {
	method, path := r.Method, r.Path
	return func(ctx context.Context, w http.ResponseWriter) {
		s.serve(ctx, w, method, path, c, func(w http.ResponseWriter) error { return rest(ctx, w, c) })
	}
}

// traceOf is the trace that a simple request is a part of.
func traceOf(r *fastpath.Request) trace.Context {
	return trace.Parse(string(r.TraceParent), string(r.TraceState))
}

// copiedValue is the size, in bytes, of the largest answer that is copied to be sent:
// copies of large ones would add up over connections whose callers are slow.
const copiedValue = 16 << 10

// getSimple answers a GET at once if a fresh value is known here. Else the rest goes on
// from what was found.
func (m *memory) getSimple(
	id journal.ID, date string, seen *observation, dst []byte,
) (answer []byte, rest finish, from outcome, err error) {
	if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
		return nil, nil, from, refusal
	}
	found, err := m.findEntry(id, anyAge)
	if err != nil {
		return nil, nil, from, err
	}
	if found.freshness != cache.Fresh || found.item.Body == nil || len(found.item.Body) > copiedValue {
		return nil, func(_ context.Context, w http.ResponseWriter, c *call) error {
			return m.finishGet(w, id, anyAge, conditions{}, found, c)
		}, from, nil
	}
	a := found.answer()
	seen.answer(a)
	seen.body(len(a.item.Body))
	dst = append(dst, "HTTP/1.1 200 OK\r\n"...)
	if seconds, ok := a.ageHeader(); ok {
		dst = append(dst, "Age: "...)
		dst = strconv.AppendInt(dst, seconds, 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "Cache-Status: "...)
	dst = append(dst, sourceNames[a.source].cacheStatus[0]...)
	dst = append(dst, "\r\nEtag: "...)
	dst = append(dst, a.item.Tag[0]...)
	dst = append(dst, "\r\n"...)
	return appendBody(dst, date, a.item.Body), nil, outcome(a.source), nil
}

// jsonHeader is the part of a simple request's header that says how to read its body.
var jsonHeader = http.Header{"Content-Type": jsonType}

// putSimple checks in the order of [wire.Bodies.ReadPut].
func (m *memory) putSimple(
	id journal.ID, r *fastpath.Request, c *call, seen *observation, dst []byte,
) (answer []byte, rest finish, err error) {
	value, refusal := wire.DecodePut(jsonHeader, r.Body)
	seen.put(value)
	seen.body(len(r.Body))
	if refusal == nil {
		refusal = wire.CheckPut(id.Namespace, id.Key, value)
	}
	if refusal != nil {
		return nil, nil, refusal
	}
	if m.writesThrough(id.Namespace) {
		return nil, func(ctx context.Context, w http.ResponseWriter, c *call) error {
			return putThrough(ctx, m, w, newPut(id, value), conditions{}, c)
		}, nil
	}
	written, err := m.store(newPut(id, value))
	if err != nil {
		return nil, nil, err
	}
	seen.acknowledged()
	switch {
	case c != nil:
		m.traces.Note(id.String(), written.Seq, c.trace)
	case len(r.TraceParent) > 0:
		m.traces.Note(id.String(), written.Seq, traceOf(r))
	}
	dst = append(dst, "HTTP/1.1 200 OK\r\nBotwired-Write: pending; seq="...)
	dst = strconv.AppendUint(dst, written.Seq, 10)
	dst = append(dst, "\r\nEtag: "...)
	dst = appendWriteTag(dst, written.Seq, value)
	dst = append(dst, "\r\n"...)
	var stored [storedSize]byte
	return appendBody(dst, r.Date, wire.AppendStored(stored[:0], id.Namespace, id.Key, wire.CodePoints(value))), nil, nil
}

// storedSize is the size, in bytes, of the longest answer to a PUT: with the longest
// names, in which nothing is escaped, and the largest value.
const storedSize = 256

// appendBody ends the head of an answer and appends its body.
func appendBody(dst []byte, date string, body []byte) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\nContent-Type: application/json\r\n"...)
	dst = append(dst, date...)
	dst = append(dst, "\r\n"...)
	return append(dst, body...)
}
