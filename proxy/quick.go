package proxy

import (
	"net/http"
	"strconv"
	"time"

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
	route := wire.ParseRoute(r.Path)
	if route.Kind != wire.EntryRoute || wire.CheckEntry(route.Namespace, route.Key) != nil {
		return dst, false
	}
	id := journal.ID{Namespace: route.Namespace, Key: route.Key}
	switch {
	case r.Method == http.MethodGet:
		return s.quickGet(id, dst)
	case r.Method == http.MethodPut && r.JSON:
		return s.quickPut(id, r.Body, dst)
	}
	return dst, false
}

func (s *Server) quickGet(id journal.ID, dst []byte) (answer []byte, ok bool) {
	key := entryKey(id)
	item, ok := s.opts.Cache.Get(key)
	if !ok {
		var err error
		if item, err = s.known(key, entrySource{s, id}); err != nil {
			return dst, false
		}
	}
	a, freshness := s.judge(key, directives{maxAge: -1}, item)
	if freshness != cache.Fresh || item.Body == nil {
		return dst, false
	}
	s.metrics.reads[a.source].Inc()
	dst = append(dst, "HTTP/1.1 200 OK\r\n"...)
	if !item.ConfirmedAt.IsZero() {
		dst = append(dst, "Age: "...)
		dst = strconv.AppendInt(dst, int64(min(a.age, maxAge)/time.Second), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "Cache-Status: "...)
	dst = append(dst, cacheStatus[a.source][0]...)
	dst = append(dst, "\r\n"...)
	return appendBody(dst, item.Body), true
}

// jsonHeader is the part of a plain request's header that says how to read its body.
var jsonHeader = http.Header{"Content-Type": jsonType}

func (s *Server) quickPut(id journal.ID, body, dst []byte) (answer []byte, ok bool) {
	value, refusal := wire.DecodePut(jsonHeader, body)
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
	return appendBody(dst, wire.AppendStored(stored[:0], id.Namespace, id.Key, wire.CodePoints(value))), true
}

// storedSize is the size, in bytes, of the longest answer to a PUT: with the longest
// names, in which nothing is escaped, and the largest value.
const storedSize = 256

// appendBody ends the head of an answer and appends its body.
func appendBody(dst, body []byte) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\nContent-Type: application/json\r\n"...)
	dst = front.AppendDate(dst)
	dst = append(dst, "\r\n"...)
	return append(dst, body...)
}
