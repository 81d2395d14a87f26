package proxy

import (
	"net/http"
	"strconv"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/front"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// Quick appends the answer to a plain request that the guard lets in, if that can be
// told from what is known here: a read of a value that is fresh, or a write that is
// taken. Anything else it leaves to ServeHTTP, which answers all, these with the same
// bytes.
func (s *Server) Quick(r *front.Request, dst []byte) (answer []byte, ok bool) {
	if r.Query || !s.enter() {
		return dst, false
	}
	defer s.background.Done()
	answer, ok, err := s.quick(r, dst)
	if err != nil {
		// It may have been done in part, so it is not left to ServeHTTP.
		s.metrics.failed.Inc()
		dst = append(dst, "HTTP/1.1 500 Internal Server Error\r\n"...)
		return appendBody(dst, r.Date, internalError().Body), true
	}
	return answer, ok
}

// quick is Quick, with a panic as an error.
func (s *Server) quick(r *front.Request, dst []byte) (answer []byte, ok bool, err error) {
	defer s.survive(&err)
	route := wire.ParseRoute(r.Path)
	if route.Kind != wire.EntryRoute || wire.CheckEntry(route.Namespace, route.Key) != nil {
		return dst, false, nil
	}
	id := journal.ID{Namespace: route.Namespace, Key: route.Key}
	switch {
	case r.Method == http.MethodGet:
		answer, ok = s.quickGet(id, r.Date, dst)
	case r.Method == http.MethodPut && r.JSON:
		answer, ok = s.quickPut(id, r, dst)
	default:
		answer = dst
	}
	return answer, ok, nil
}

// quickValue is the size, in bytes, of the largest answer that is copied to be sent:
// copies of large ones would add up over connections whose callers are slow.
const quickValue = 16 << 10

// quickGet looks into the cache itself: to ask known first would cost an allocation.
func (s *Server) quickGet(id journal.ID, date string, dst []byte) (answer []byte, ok bool) {
	key := entryKey(id)
	item, ok := s.opts.Cache.Get(key)
	if !ok {
		var err error
		if item, err = s.known(key, entrySource{s, id}); err != nil {
			return dst, false
		}
	}
	a, freshness := s.judge(key, directives{maxAge: -1}, item)
	if freshness != cache.Fresh || item.Body == nil || len(item.Body) > quickValue {
		return dst, false
	}
	s.metrics.reads[a.source].Inc()
	dst = append(dst, "HTTP/1.1 200 OK\r\n"...)
	if seconds, ok := a.ageHeader(); ok {
		dst = append(dst, "Age: "...)
		dst = strconv.AppendInt(dst, seconds, 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "Cache-Status: "...)
	dst = append(dst, told[a.source].header[0]...)
	dst = append(dst, "\r\n"...)
	return appendBody(dst, date, item.Body), true
}

// jsonHeader is the part of a plain request's header that says how to read its body.
var jsonHeader = http.Header{"Content-Type": jsonType}

func (s *Server) quickPut(id journal.ID, r *front.Request, dst []byte) (answer []byte, ok bool) {
	value, refusal := wire.DecodePut(jsonHeader, r.Body)
	if refusal != nil || wire.CheckSize(value) != nil {
		return dst, false
	}
	written, err := s.journalPut(id, value)
	if err != nil {
		return dst, false
	}
	s.metrics.acknowledged[journal.Put].Inc()
	dst = append(dst, "HTTP/1.1 200 OK\r\nBotwired-Write: pending; seq="...)
	dst = strconv.AppendUint(dst, written.Seq, 10)
	dst = append(dst, "\r\n"...)
	var stored [storedSize]byte
	return appendBody(dst, r.Date, wire.AppendStored(stored[:0], id.Namespace, id.Key, wire.CodePoints(value))), true
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
