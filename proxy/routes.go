package proxy

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/dashboard"
	"github.com/botwired/botwired/proxy/surface"
)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, err := byAuthor(r)
	c := &call{began: time.Now(), trace: trace.FromHeader(r.Header), seen: s.surface.Monitor.BeginHTTP(r)}
	if err != nil {
		c.refuse(w, err)
		return
	}
	s.serve(r.Context(), w, r.Method, r.URL.Path, c, func(w http.ResponseWriter) error { return s.route(w, r, c) })
}

// byAuthor returns a request whose address names its author as if the caller had sent a header; a header of
// the caller's counts more.
func byAuthor(r *http.Request) (*http.Request, *wire.Refusal) {
	author, rest, ok := wire.CutAuthor(r.URL.EscapedPath())
	if !ok {
		return r, nil
	}
	path, err := url.PathUnescape(rest)
	if author == "" || err != nil {
		return r, errNoAuthor
	}
	named, to := *r, *r.URL
	to.Path, to.RawPath = cmp.Or(path, "/"), cmp.Or(rest, "/")
	named.URL, named.Header = &to, r.Header.Clone()
	if len(named.Header.Values(wire.AuthorHeader)) == 0 {
		named.Header.Set(wire.AuthorHeader, author)
	}
	return &named, nil
}

// serve lets handle answer a call, turns its error or panic into an answer, and measures the call.
func (s *Server) serve(
	ctx context.Context, w http.ResponseWriter, method, path string, c *call, handle func(http.ResponseWriter) error,
) {
	if !s.tasks.Start() {
		c.refuse(w, errShuttingDown)
		return
	}
	defer s.tasks.Done()
	if err := tasks.Recovered(s.logger, func() error { return handle(w) }); err != nil {
		s.fail(ctx, w, c, method, path, err)
	}
	s.leave(c)
}

func (s *Server) route(w http.ResponseWriter, r *http.Request, c *call) error {
	if path, ok := strings.CutPrefix(r.URL.Path+"/", surface.Prefix); ok {
		switch path = strings.TrimSuffix(path, "/"); path {
		case surface.AppendPath:
			return s.answerAppend(w, r, c)
		case surface.UndoPath:
			return s.answerUndo(w, r, c)
		case surface.RewindPath:
			return s.answerRewind(w, r)
		}
		return s.surface.Answer(w, r, path)
	}
	if r.URL.Path == "/"+surface.MetricsPath { // scrapers look there, and upstream has nothing there
		return s.surface.Answer(w, r, surface.MetricsPath)
	}
	route := wire.ParseRoute(r.URL.Path)
	switch route.Kind {
	case wire.EntryRoute:
		s.surface.Callers.Note([]byte(r.UserAgent()), time.Now())
		return s.answerEntry(w, r, journal.ID{Namespace: route.Namespace, Key: route.Key}, c)
	case wire.ListRoute:
		s.surface.Callers.Note([]byte(r.UserAgent()), time.Now())
		return s.answerListing(w, r, route.Namespace, c)
	case wire.Missing:
		return wire.Detail(http.StatusNotFound, "Not Found")
	case wire.Redirect:
		w.Header().Set("Location", wire.RedirectLocation(r))
		w.WriteHeader(http.StatusTemporaryRedirect)
		c.seen.End(http.StatusTemporaryRedirect, 0)
		return nil
	}
	if dashboard.Leads(r) {
		surface.Lead(w)
		return nil
	}
	return s.passOn(w, r)
}

// passOn forwards a request that is neither for the memory API nor for the daemon. It refuses TRACE, because
// upstream would echo the headers that the daemon adds, tokens included. CONNECT and the asterisk form of
// OPTIONS name no resource upstream.
func (s *Server) passOn(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace:
		return wire.MethodNotAllowed()
	case !strings.HasPrefix(r.URL.Path, "/"):
		return wire.Detail(http.StatusNotFound, "Not Found")
	case mayLeadToMemory(r.URL.Path): // guard 1.4
		return errUncertainPath
	case s.seals && namesMemory(r.URL.Path) && r.RequestURI != statsPath: // guard 23.46
		return errUnsealedPath
	}
	end, err := s.surface.BeginWait() // upstream may hang, and its answer may be a stream without an end
	if err != nil {
		return err // guard 16.49
	}
	defer end()
	s.metrics.Forwarded.Inc()
	s.forward.ServeHTTP(w, r)
	return nil
}

// statsPath is the path of BotWire's counters, which hold no entries.
const statsPath = "/stats/memory"

var errUncertainPath = wire.Detail(http.StatusBadRequest,
	`The path has a dot segment ("." or ".."), or leads to /memory by slashes of another kind. Servers on the way may `+
		"resolve it to another path, so botwired does not pass it on. Send the path that you mean.")

var errUnsealedPath = wire.Detail(http.StatusBadRequest,
	"A namespace is sealed, and a server on the way may take this path for one of the memory API, where nothing of it would be sealed: "+
		"botwired does not pass it on. The memory is at /memory/NAMESPACE/KEY, written like this.")

// mayLeadToMemory reports whether a gateway on the way may turn a path into one of the memory API: by
// resolving dot segments, backslashes, double slashes, semicolons or escapes. A write to that path would
// bypass the journal.
func mayLeadToMemory(path string) bool {
	path = unescaped(path, func(c byte) bool { return strings.IndexByte("%./\\;memory", c) >= 0 })
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	for i, segment := range segments {
		segment, _, _ = strings.Cut(segment, ";")
		if segment == "." || segment == ".." {
			return true
		}
		segments[i] = segment
	}
	for len(segments) > 0 && segments[0] == "" {
		segments = segments[1:]
	}
	return len(segments) > 0 && segments[0] == "memory"
}

// namesMemory reports whether a gateway on the way may find the memory API in a path, also by ignoring case, a prefix, an
// ending or control characters, by the escapes of some (%u006d), or by taking a character for a similar one.
func namesMemory(path string) bool {
	path = unescaped(path, func(byte) bool { return true })
	path = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, path)
	return strings.Contains(path, "memory") || strings.Contains(path, "%u") ||
		strings.ContainsFunc(path, func(r rune) bool { return r > unicode.MaxASCII })
}

// unescaped resolves the escapes of the characters that resolves accepts, until there are none: also those that other
// escapes leave.
func unescaped(path string, resolves func(c byte) bool) string {
	var text []byte
	for i := range len(path) {
		text = append(text, path[i])
		for n := len(text) - len("%00"); n >= 0 && text[n] == '%'; n = len(text) - len("%00") {
			c, err := strconv.ParseUint(string(text[n+1:]), 16, 8)
			if err != nil || !resolves(byte(c)) {
				break
			}
			text = append(text[:n], byte(c))
		}
	}
	return string(text)
}
