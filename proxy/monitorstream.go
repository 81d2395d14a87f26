package proxy

import (
	"net/http"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/feed"
	"github.com/botwired/botwired/internal/sse"
)

// The names of the monitor's events.
const (
	eventRequest = "request"
	eventSkipped = "skipped"
)

type requestDocument struct {
	At           float64  `json:"at"` // when it came, in Unix seconds
	Method       string   `json:"method"`
	Path         string   `json:"path"`
	Namespace    string   `json:"namespace"`
	Key          string   `json:"key"`
	Status       int      `json:"status"`
	Answered     string   `json:"answered"`
	AgeSeconds   *float64 `json:"age_seconds"` // null if the answer has no age
	Microseconds int64    `json:"microseconds"`
	Bytes        int      `json:"bytes"`
	Value        *string  `json:"value,omitempty"`
	ValueCut     bool     `json:"value_cut,omitempty"`
}

type skippedDocument struct {
	Requests uint64 `json:"requests"`
}

func (r *request) document(values bool) requestDocument {
	doc := requestDocument{
		At: unixSeconds(r.at), Method: r.method, Path: r.path, Namespace: r.id.Namespace, Key: r.id.Key,
		Status: r.status, Answered: r.answered, Microseconds: r.took.Microseconds(), Bytes: r.bytes,
	}
	if r.age != cache.Forever {
		seconds := r.age.Seconds()
		doc.AgeSeconds = &seconds
	}
	if values && r.hasValue {
		doc.Value, doc.ValueCut = &r.value, r.cut
	}
	return doc
}

// followRequests answers with the requests from now on.
func (s *surface) followRequests(w http.ResponseWriter, r *http.Request) error {
	namespace, err := namespaceParameter(r)
	if err != nil {
		return err
	}
	values, err := boolParameter(r, "values")
	if err != nil {
		return err
	}
	from, err := s.monitor.feed.Follow()
	if err != nil {
		return tooManyReaders(w, err)
	}
	defer from.Close()
	if values {
		s.monitor.values.Add(1)
		defer s.monitor.values.Add(-1)
	}
	f := requestFollower{namespace, values}
	return serveStream(s.tasks, w, r, func(out *stream) error {
		out.buf = f.beat(sse.AppendRetry(out.buf, reconnectAfter))
		if err := out.flush(); err != nil {
			return err
		}
		return teller[request]{f.tell, f.beat}.send(out, from)
	})
}

// requestFollower makes one reader's stream.
type requestFollower struct {
	namespace string // empty for all
	values    bool
}

func (f requestFollower) tell(dst []byte, records []feed.Record[request], missed uint64) ([]byte, time.Duration) {
	if missed > 0 {
		dst = appendEvent(dst, "", eventSkipped, skippedDocument{missed})
	}
	for i := range records {
		r := &records[i].Value
		if f.namespace == "" || r.id.Namespace == f.namespace {
			dst = appendEvent(dst, "", eventRequest, r.document(f.values))
		}
	}
	return dst, 0
}

func (requestFollower) beat(dst []byte) []byte { return sse.AppendComment(dst, "botwired") }
