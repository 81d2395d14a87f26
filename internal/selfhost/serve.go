package selfhost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/wire"
)

// health is the answer of BotWire's server when it takes no payments.
const health = `{"status":"ok","payments":"disabled","network":"eip155:84532"}`

// serve answers one request, with half the latency before the operation and half after it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.version != "" {
		w.Header().Set("Server", "botwired-selfhost/"+s.version)
	}
	if err := tasks.Sleep(r.Context(), s.latency/2); err != nil {
		cancelled().Write(w)
		return
	}
	if target, ok := redirect(r); ok {
		w.Header().Set("Location", target)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	body, err := s.answer(w, r)
	if tasks.Sleep(r.Context(), s.latency-s.latency/2) != nil {
		cancelled().Write(w)
		return
	}
	if err != nil {
		s.refusal(err).Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // it fails only if the caller has gone
}

// cancelled returns the answer to a request whose context has ended, in case its caller still listens.
// It never reports success: that would confirm a write that may not have been made.
func cancelled() *wire.Refusal {
	return wire.Detail(http.StatusServiceUnavailable, "The request was cancelled.")
}

// redirect returns the redirect target of a request with trailing slashes.
func redirect(r *http.Request) (target string, ok bool) {
	path := r.URL.Path
	trimmed := strings.TrimRight(path, "/")
	if wire.ParseRoute(path).Kind == wire.Redirect || trimmed != path && isExtra(trimmed) {
		return wire.RedirectLocation(r), true
	}
	return "", false
}

// isExtra reports whether path is served in addition to the memory API.
func isExtra(path string) bool { return path == "/health" || path == "/stats/memory" }

// answer returns the body of a 200; its error is a [*wire.Refusal], or an error of the store.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	done, err := s.store.begin()
	if err != nil {
		return nil, err
	}
	defer done()
	switch route := wire.ParseRoute(r.URL.Path); route.Kind {
	case wire.EntryRoute:
		return s.entry(w, r, route.Namespace, route.Key)
	case wire.ListRoute:
		return s.list(r, route.Namespace)
	}
	switch {
	case !isExtra(r.URL.Path):
		return nil, wire.Detail(http.StatusNotFound, "Not Found")
	case r.Method != http.MethodGet:
		return nil, wire.MethodNotAllowed()
	case r.URL.Path == "/health":
		return []byte(health), nil
	}
	entries, namespaces, bytes, err := s.store.Stats(r.Context())
	return fmt.Appendf(nil, `{"total_entries":%d,"total_namespaces":%d,"total_bytes":%d}`, entries, namespaces, bytes), err
}

func (s *Server) entry(w http.ResponseWriter, r *http.Request, ns, key string) ([]byte, error) {
	switch r.Method {
	case http.MethodGet:
		return s.get(r.Context(), ns, key)
	case http.MethodPut:
		return s.put(w, r, ns, key)
	case http.MethodDelete:
		return s.remove(r.Context(), ns, key)
	}
	return nil, wire.MethodNotAllowed()
}

func (s *Server) get(ctx context.Context, ns, key string) ([]byte, error) {
	if refusal := wire.CheckEntry(ns, key); refusal != nil {
		return nil, refusal
	}
	e, found, err := s.store.Get(ctx, ns, key)
	if err == nil && !found {
		return nil, wire.NotFound(ns, key)
	}
	return e.AppendJSON(nil), err
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, ns, key string) ([]byte, error) {
	value, room, refusal := s.bodies.ReadPut(w, r, ns, key)
	if refusal != nil {
		return nil, refusal
	}
	defer room.Release()
	err := s.store.Set(context.WithoutCancel(r.Context()), ns, key, value)
	return wire.AppendStored(nil, ns, key, wire.CodePoints(value)), err
}

func (s *Server) remove(ctx context.Context, ns, key string) ([]byte, error) {
	if refusal := wire.CheckEntry(ns, key); refusal != nil {
		return nil, refusal
	}
	existed, err := s.store.Remove(context.WithoutCancel(ctx), ns, key)
	if err == nil && !existed {
		return nil, wire.NotFound(ns, key)
	}
	return wire.AppendDeleted(nil, ns, key), err
}

func (s *Server) list(r *http.Request, ns string) ([]byte, error) {
	if r.Method != http.MethodGet {
		return nil, wire.MethodNotAllowed()
	}
	limit, refusal := wire.ParseList(r.URL.RawQuery, ns)
	if refusal != nil {
		return nil, refusal
	}
	listing, err := s.store.List(r.Context(), ns, limit)
	return listing.AppendJSON(nil), err
}

// refusal converts an error to an answer. It logs a failure of the database, and gives the caller no
// details of it.
func (s *Server) refusal(err error) *wire.Refusal {
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		return refusal
	}
	interrupted := code(err) == sqlite3.SQLITE_INTERRUPT
	if interrupted || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return cancelled()
	}
	if errors.Is(err, errClosed) {
		return wire.Detail(http.StatusServiceUnavailable, "The server is shutting down.")
	}
	s.log.Error("memory database failed", "error", err)
	switch code(err) {
	case sqlite3.SQLITE_FULL:
		return wire.Detail(http.StatusInsufficientStorage, "The disk is full; nothing was changed.")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return wire.Detail(http.StatusServiceUnavailable, "The database is busy.")
	}
	return wire.Detail(http.StatusInternalServerError, "The database failed.")
}

// code returns SQLite's primary result code, or 0.
func code(err error) int {
	if failure, ok := errors.AsType[*sqlite.Error](err); ok {
		return failure.Code() & 0xFF
	}
	return 0
}
