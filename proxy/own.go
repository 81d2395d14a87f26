package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/botwired/botwired/internal/wire"
)

const (
	// answerTime is how long an answer may take to be sent that was waited for longer
	// than the server's own limits allow.
	answerTime = time.Minute
	// flushTimeout is how long a flush request waits unless it says otherwise, and
	// maxFlushTimeout the most that it can say.
	flushTimeout    = time.Minute
	maxFlushTimeout = time.Hour
	// pendingLimit is how many pending writes are listed unless the request says
	// otherwise, and maxPendingLimit the most that it can say.
	pendingLimit    = 100
	maxPendingLimit = 10_000
)

// surface is what the daemon answers itself, by what follows ownPrefix.
var surface = map[string]struct {
	method string
	handle func(*Server, http.ResponseWriter, *http.Request) error
}{
	"status":       {http.MethodGet, (*Server).status},
	"flush":        {http.MethodPost, (*Server).flush},
	"pending":      {http.MethodGet, (*Server).pending},
	"dead-letters": {http.MethodGet, (*Server).deadLetters},
	"metrics":      {http.MethodGet, (*Server).exposeMetrics},
	"livez":        {http.MethodGet, (*Server).livez},
	"readyz":       {http.MethodGet, (*Server).readyz},
}

// own answers the daemon's own requests; path is what follows ownPrefix.
func (s *Server) own(w http.ResponseWriter, r *http.Request, path string) error {
	if letter, ok := strings.CutPrefix(path, "dead-letters/"); ok {
		return s.deadLetter(w, r, letter)
	}
	operation, ok := surface[path]
	if !ok {
		return wire.Detail(http.StatusNotFound, "Not Found")
	}
	if err := require(r, operation.method); err != nil {
		return err
	}
	return operation.handle(s, w, r)
}

// require refuses other methods. HEAD is GET without the body.
func require(r *http.Request, method string) error {
	if r.Method == method || (method == http.MethodGet && r.Method == http.MethodHead) {
		return nil
	}
	refusal := wire.Detail(http.StatusMethodNotAllowed, "Method Not Allowed")
	refusal.Allow = method
	return refusal
}

func (s *Server) livez(w http.ResponseWriter, _ *http.Request) error {
	return writeDocument(w, http.StatusOK, map[string]string{"status": "alive"})
}

// readyz is ready when a write could be taken now.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) error {
	if err := s.opts.Journal.Err(); err != nil {
		return wire.Detail(http.StatusServiceUnavailable, "not ready: "+err.Error())
	}
	return writeDocument(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (s *Server) exposeMetrics(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(s.opts.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

type flushDocument struct {
	Settled int `json:"settled"`
	Dead    int `json:"dead"`
	Pending int `json:"pending"`
}

// flush answers when all that was acknowledged before is settled or dead, or when its
// time is up.
func (s *Server) flush(w http.ResponseWriter, r *http.Request) error {
	namespace, err := namespaceParameter(r)
	if err != nil {
		return err
	}
	timeout, err := timeoutParameter(r)
	if err != nil {
		return err
	}
	// It may take longer than any other request.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + answerTime)); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	settled, dead, pending, err := s.opts.Flusher.Flush(ctx, namespace)
	if err != nil && ctx.Err() == nil {
		return err
	}
	status := http.StatusOK
	if pending > 0 || err != nil {
		status = http.StatusGatewayTimeout
	}
	return writeDocument(w, status, flushDocument{settled, dead, pending})
}

func namespaceParameter(r *http.Request) (string, error) {
	namespace := r.URL.Query().Get("namespace")
	if namespace == "" {
		return "", nil
	}
	if refusal := wire.CheckNamespace(namespace); refusal != nil {
		return "", refusal
	}
	return namespace, nil
}

// timeoutParameter is a duration such as 30s, or a number of seconds.
func timeoutParameter(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return flushTimeout, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < 0 || d > maxFlushTimeout {
		return 0, wire.Detail(http.StatusBadRequest,
			fmt.Sprintf("timeout=%q: expected a duration such as 30s, from 0 to %s", text, maxFlushTimeout))
	}
	return d, nil
}

func limitParameter(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return pendingLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPendingLimit {
		return 0, wire.Detail(http.StatusBadRequest,
			fmt.Sprintf("limit=%q: expected a whole number from 1 to %d", text, maxPendingLimit))
	}
	return n, nil
}
