package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/surface"
)

// write writes the result of a request. An error may come with headers.
func (s *Server) write(w http.ResponseWriter, c *call, r *memory.Result, err error) error {
	if r.Status != 0 {
		setHeader(w.Header(), r)
	}
	if err != nil {
		return err
	}
	s.count(c, r)
	s.surface.AgentState.SetHeader(w.Header(), c.namespace)
	if r.Status == http.StatusNotModified {
		w.WriteHeader(r.Status)
		c.seen.End(r.Status, 0)
		return nil
	}
	body := r.Body(nil)
	surface.WriteJSON(w, r.Status, body)
	c.seen.End(r.Status, len(body))
	return nil
}

func setHeader(h http.Header, r *memory.Result) {
	var room [storedSize]byte
	values := make([]string, 0, 4)
	for line := range strings.SplitSeq(string(r.AppendHeader(room[:0])), "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			values = append(values, value)
			h[name] = values[len(values)-1 : len(values) : len(values)]
		}
	}
}

// fail writes the answer for an error, and logs an error that is the daemon's fault.
func (s *Server) fail(ctx context.Context, w http.ResponseWriter, c *call, method, path string, err error) {
	var refusal *wire.Refusal
	var later interface{ RetryAfter() time.Duration }
	var said memory.Answered
	var unwritten interface {
		WriteStatus() int
		RetryAfter() time.Duration // 0 if unknown
	}
	switch {
	case errors.As(err, &refusal):
		c.outcome = memory.WasRefused
	case errors.Is(err, journal.ErrFull): // guard 3.3
		c.outcome = memory.WasFull
		refusal = wire.Detail(http.StatusInsufficientStorage, "the write was not taken, and nothing of it is kept: "+err.Error()+". "+surface.WhileFull)
	case memory.IsNamespaceFull(err):
		c.outcome = memory.WasNamespaceFull
		refusal = wire.Detail(http.StatusRequestEntityTooLarge, "the write was not taken, and nothing of it is kept: "+err.Error())
	case errors.Is(err, journal.ErrNoDeadLetter):
		c.outcome = memory.WasRefused
		refusal = wire.Detail(http.StatusNotFound, err.Error())
	case errors.As(err, &said):
		c.outcome = memory.WasRefused
		status, body := said.Answer()
		refusal = &wire.Refusal{Status: status, RetryAfter: said.RetryAfter(), Body: body}
	case errors.As(err, &unwritten):
		c.outcome = memory.WasUnavailable
		refusal = wire.Detail(unwritten.WriteStatus(), err.Error())
		refusal.RetryAfter = unwritten.RetryAfter()
	case errors.As(err, &later):
		c.outcome = memory.WasUnavailable
		refusal = wire.Unavailable(later.RetryAfter(), notAnswered(err))
	case errors.Is(err, context.DeadlineExceeded):
		c.outcome = memory.WasUnavailable
		refusal = wire.Unavailable(time.Second, "it takes longer than a request may wait, and is not all done: try again")
	case ctx.Err() != nil, errors.Is(err, context.Canceled), errors.Is(err, journal.ErrClosed):
		c.outcome = memory.WasEnded
		refusal = errShuttingDown // or the caller has gone and reads nothing
	case errors.Is(err, journal.ErrFailed): // guard 2.16
		c.outcome = memory.WasEnded
		refusal = errDiskFailed
	default:
		c.outcome = memory.WasFailed
		s.metrics.Failed.Inc()
		s.logger.Error("request failed", "method", method, "path", path, "error", err)
		refusal = wire.Detail(http.StatusInternalServerError, "internal error: see botwired's log")
	}
	if c.namespace != "" {
		s.surface.AgentState.SetHeader(w.Header(), c.namespace) // guard 9.94
	}
	c.refuse(w, refusal)
}

// notAnswered returns the detail of a 503: why only upstream can answer, and why it cannot be asked.
func notAnswered(err error) string {
	if _, ok := errors.AsType[memory.UnusedCopy](err); ok {
		return "known here, but the request's Cache-Control excludes that answer, and " + err.Error()
	}
	said := "not known here, and " + err.Error()
	if _, ok := errors.AsType[memory.Unassumed](err); ok {
		said += ". If agents may begin here in an outage, set offline: assume-absent for the namespace, or --offline assume-absent for all (docs/memory-api.md#when-upstream-is-away)"
	}
	return said
}

// errDiskFailed is for those who ask while the process ends (contract 2).
var errDiskFailed = wire.Unavailable(time.Second, "botwired ends, as its disk has failed or damaged its journal. Whether a write without another answer is kept shows after the next start")

var errShuttingDown = wire.Unavailable(time.Second, "shutting down")
