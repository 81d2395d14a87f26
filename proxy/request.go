package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/surface"
)

const (
	// maxSeparator bounds a separator, in characters.
	maxSeparator = 100
)

func (s *Server) answerEntry(w http.ResponseWriter, r *http.Request, id journal.ID, c *call) error {
	q := memory.Request{Verb: verbOf(r.Method), ID: id}
	s.enter(c, q.Verb, id.Namespace)
	switch q.Verb {
	case memory.NoVerb:
		return wire.MethodNotAllowed()
	case memory.GetEntry, memory.DeleteEntry:
		if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
			return refusal
		}
	}
	if err := readHeader(&q, r.Header); err != nil {
		return err
	}
	if q.Verb == memory.PutEntry {
		room, err := s.readValue(w, r, &q)
		if err != nil {
			return err
		}
		defer room.Release()
	}
	return s.answer(w, &q, c, func() (memory.Result, error) { return s.memory.Do(r.Context(), &q) })
}

func readHeader(q *memory.Request, h http.Header) (err error) {
	q.Conditions, err = memory.ParseConditions(wire.Given(h, "If-Match"), wire.Given(h, "If-None-Match"))
	q.Directives = memory.ParseDirectives(h["Cache-Control"])
	q.Wait, q.Waits = preferredWait(h["Prefer"])
	switch named := wire.Given(h, "Idempotency-Key"); {
	case len(named) == 0 || q.Verb == memory.GetEntry:
	case len(named) > 1 || named[0] == "": // guard 5.21
		return errNoName
	default:
		q.Name = named[0]
	}
	switch named := h[wire.AuthorHeader]; {
	case q.Verb == memory.GetEntry:
	case len(named) == 0:
		q.Author = wire.Product(h.Get("User-Agent"))
	case len(named) > 1 || !wire.IsAuthor(named[0]):
		return errNoAuthor
	default:
		q.Author = named[0]
	}
	return err
}

var errNoName = wire.Detail(http.StatusBadRequest, "Idempotency-Key must name the request, once: with a UUID, say")

var errNoAuthor = wire.Detail(http.StatusBadRequest,
	wire.AuthorHeader+", or the path after "+wire.AuthorPath+", must name the program that writes, once, in 1 to 64 printable characters")

func (s *Server) readValue(w http.ResponseWriter, r *http.Request, q *memory.Request) (room *wire.Room, err error) {
	value, held, refusal := s.bodies.ReadPut(w, r, q.ID.Namespace, q.ID.Key)
	if refusal != nil {
		return nil, refusal
	}
	q.Value, q.Release = value, held.Release
	return &held, nil
}

func (s *Server) answerListing(w http.ResponseWriter, r *http.Request, namespace string, c *call) error {
	c.namespace = namespace
	if r.Method != http.MethodGet {
		return wire.MethodNotAllowed()
	}
	s.enter(c, memory.ListKeys, namespace)
	limit, refusal := wire.ParseList(r.URL.RawQuery, namespace)
	if refusal != nil {
		return refusal
	}
	q := memory.Request{Verb: memory.ListKeys, ID: journal.ID{Namespace: namespace}, Limit: limit, Directives: memory.ParseDirectives(r.Header["Cache-Control"])}
	return s.answer(w, &q, c, func() (memory.Result, error) { return s.memory.Do(r.Context(), &q) })
}

func (s *Server) answerAppend(w http.ResponseWriter, r *http.Request, c *call) error {
	p := surface.Require(r, http.MethodPost, "namespace", "key", "separator")
	id, separator := p.Entry(), p.Text("separator")
	c.namespace = id.Namespace
	if !utf8.ValidString(separator) || utf8.RuneCountInString(separator) > maxSeparator {
		p.Refuse("the parameter separator is wrong: expected at most %d characters in UTF-8", maxSeparator)
	}
	if p.Err != nil {
		return p.Err
	}
	q := memory.Request{Verb: memory.PutEntry, ID: id}
	if err := readHeader(&q, r.Header); err != nil {
		return err
	}
	s.enter(c, memory.PutEntry, id.Namespace)
	room, err := s.readValue(w, r, &q)
	if err != nil {
		return err
	}
	defer room.Release()
	return s.answer(w, &q, c, func() (memory.Result, error) { return s.memory.Append(r.Context(), &q, separator) })
}

// Made twice, an undo takes itself back: a name must not be ignored.
var errUndoOfAnother = wire.Detail(http.StatusBadRequest,
	"an undo takes If-Match, which makes it safe to repeat, and neither If-None-Match nor Idempotency-Key")

var errUndoOfMany = wire.Detail(http.StatusBadRequest,
	"an undo of a namespace takes as_of, which makes it safe to repeat, and neither a condition nor Idempotency-Key")

// answerUndo undoes the newest write to an entry, or all writes since the revision in the parameter to.
func (s *Server) answerUndo(w http.ResponseWriter, r *http.Request, c *call) error {
	p := surface.Require(r, http.MethodPost, "namespace", "key", "to")
	id, to := p.Entry(), p.Revision("to")
	c.namespace = id.Namespace
	if p.Err != nil {
		return p.Err
	}
	q := memory.Request{Verb: memory.PutEntry, ID: id}
	if err := readHeader(&q, r.Header); err != nil {
		return err
	}
	if q.HasNoneMatch() || q.Name != "" { // guard 5.22
		return errUndoOfAnother
	}
	s.enter(c, memory.PutEntry, id.Namespace)
	return s.answer(w, &q, c, func() (memory.Result, error) { return s.surface.Undo(r.Context(), &q, to) })
}

// answerRewind previews or does the undo of all writes to a namespace since a time.
func (s *Server) answerRewind(w http.ResponseWriter, r *http.Request) error {
	q := memory.Request{Verb: memory.PutEntry}
	if err := readHeader(&q, r.Header); err != nil {
		return err
	}
	if h := r.Header; r.Method == http.MethodPost && (q.Name != "" || wire.Given(h, "If-Match") != nil || wire.Given(h, "If-None-Match") != nil) { // guard 5.23
		return errUndoOfMany
	}
	return s.surface.Rewind(w, r, q.Author)
}

// answer lets the memory carry out a request, and writes the result.
func (s *Server) answer(w http.ResponseWriter, q *memory.Request, c *call, carryOut func() (memory.Result, error)) error {
	q.Trace = c.trace
	var extended bool
	var end func()
	defer func() {
		if end != nil {
			end()
		}
	}()
	q.Extend = func(most time.Duration) bool {
		surface.Allow(w, most)
		if extended = true; end == nil { // guard 16.51
			end = s.surface.Waiters.Begin()
		}
		return end != nil
	}
	result, err := carryOut()
	if extended {
		surface.Allow(w, 0)
	}
	return s.write(w, c, &result, err)
}

// maxPreferredWait bounds how long a write can wait for upstream before its answer: a caller cannot hold a
// connection for ever.
const maxPreferredWait = time.Minute

// preferredWait returns how long the caller prefers to wait for upstream (RFC 7240, section 4.3), at
// most maxPreferredWait. Only the first wait preference counts. ok is false if it is invalid or missing.
func preferredWait(lines []string) (wait time.Duration, ok bool) {
	for _, line := range lines {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 0, false
			}
			return time.Duration(min(n, uint64(maxPreferredWait/time.Second))) * time.Second, true
		}
	}
	return 0, false
}
