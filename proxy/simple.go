package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/surface"
)

// AnswerSimple answers a simple request that the guard lets in, if it is a GET or a PUT of an entry. It
// answers at once if memory or an acknowledgement is enough, and otherwise returns later. It leaves any
// other request to ServeHTTP. ServeHTTP answers every request, these with the same bytes.
func (s *Server) AnswerSimple(r *fastpath.Request, dst []byte) (answer []byte, later fastpath.Later) {
	if author, path, ok := wire.CutAuthor(r.Path); ok {
		if author == "" {
			return nil, nil
		}
		r.Path, r.Author = path, cmp.Or(r.Author, author)
	}
	route := wire.ParseRoute(r.Path)
	isPut := r.Method == http.MethodPut && r.JSON
	if r.Query || route.Kind != wire.EntryRoute || r.Method != http.MethodGet && !isPut || r.Author != "" && !wire.IsAuthor(r.Author) || !s.tasks.Start() {
		return nil, nil
	}
	defer s.tasks.Done()
	c := call{verb: verbOf(r.Method), began: time.Now(), seen: s.surface.Monitor.Begin(r.Method, r.Path, route)}
	product := s.surface.Callers.Note(r.Agent, c.began)
	if isPut { // the write keeps its trace until it is sent
		c.trace = traceOf(r)
		s.enter(&c, memory.PutEntry, route.Namespace)
	}
	q := memory.Request{Verb: c.verb, ID: journal.ID{Namespace: route.Namespace, Key: route.Key}, Directives: memory.AnyAge, Author: cmp.Or(r.Author, product), Trace: c.trace, AtOnce: true}
	result, err := s.atOnce(&q, r, c.seen)
	var room [storedSize]byte
	var body []byte
	if err == nil {
		body = result.Body(room[:0])
	}
	if err != nil || len(body) > copiedValue {
		if !isPut {
			c.trace = traceOf(r)
			s.enter(&c, memory.GetEntry, route.Namespace)
		}
		return nil, s.later(r.Method, r.Path, c, q, result, err)
	}
	s.count(&c, &result)
	if !isPut && s.tracer != nil { // no trace context is passed on, and an unsampled span costs next to nothing
		c.span = s.tracer.Start(c.verb.String(), route.Namespace, traceOf(r), c.began)
	}
	dst = appendStatus(dst, result.Status)
	dst = s.surface.AgentState.AppendHeader(result.AppendHeader(dst), route.Namespace) // guard 9.90
	dst = appendBody(dst, r.Date, body)
	c.seen.End(result.Status, len(body))
	s.leave(&c)
	return dst, nil
}

// BodyMatters reports whether the answer to a simple request depends on its body. A PUT of anything but an
// entry is refused without a look at its body.
func BodyMatters(r *fastpath.Request) bool { return wire.ParseRoute(r.Path).Kind == wire.EntryRoute }

// atOnce checks a request in the same order as [wire.Bodies.ReadPut], and carries it out if that needs no
// wait.
func (s *Server) atOnce(q *memory.Request, r *fastpath.Request, seen *surface.Observation) (result memory.Result, err error) {
	defer tasks.RecoverPanic(s.logger, &err)
	var refusal *wire.Refusal
	if q.Verb == memory.PutEntry {
		q.Value, refusal = wire.DecodePut(nil, r.Body) // the request said that it is JSON
		seen.Read(len(r.Body))
	}
	if refusal == nil {
		refusal = wire.CheckPut(q.ID.Namespace, q.ID.Key, q.Value)
	}
	if refusal != nil {
		return memory.Result{}, refusal
	}
	return s.memory.Do(context.Background(), q)
}

// later returns the function that answers a request that has to wait, was refused, or has a large answer.
func (s *Server) later(method, path string, c call, q memory.Request, result memory.Result, err error) fastpath.Later {
	return func(ctx context.Context, w http.ResponseWriter) {
		s.serve(ctx, w, method, path, &c, func(w http.ResponseWriter) error {
			if errors.Is(err, memory.ErrWaits) {
				q.AtOnce = false
				return s.answer(w, &q, &c, func() (memory.Result, error) { return s.memory.Do(ctx, &q) }) // guard 16.53
			}
			return s.write(w, &c, &result, err)
		})
	}
}

func traceOf(r *fastpath.Request) trace.Context {
	return trace.Parse(string(r.TraceParent), string(r.TraceState))
}

const (
	// copiedValue is the size, in bytes, of the largest answer that is copied for sending: copies of large
	// ones would add up over connections with slow callers.
	copiedValue = 16 << 10
	// storedSize is the size, in bytes, of the longest answer to a PUT: with the longest names, which need no
	// escapes, and the largest value.
	storedSize = 256
)

func appendStatus(dst []byte, status int) []byte {
	if status == http.StatusOK {
		return append(dst, "HTTP/1.1 200 OK\r\n"...)
	}
	dst = append(strconv.AppendInt(append(dst, "HTTP/1.1 "...), int64(status), 10), ' ')
	return append(append(dst, http.StatusText(status)...), "\r\n"...)
}

func appendBody(dst []byte, date string, body []byte) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\nContent-Type: application/json\r\n"...)
	dst = append(dst, date...)
	dst = append(dst, "\r\n"...)
	return append(dst, body...)
}
