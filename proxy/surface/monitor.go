package surface

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/feed"
	"github.com/botwired/botwired/internal/sse"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/proxy/memory"
)

const (
	monitorKept    = 1024
	monitorReaders = 8
	// monitorBurst bounds the requests that are recorded until a reader reads again.
	monitorBurst = 2 * streamBatch
	// monitorName bounds the shown part of a path or a name, in bytes. Valid names are shorter.
	monitorName = 256
)

// Monitor streams the requests of the memory API to its readers.
type Monitor struct {
	feed *feed.Feed[api.AnsweredRequest]
}

// Observation records a request in progress for the monitor. The methods of a nil one do nothing.
type Observation struct {
	monitor *Monitor
	began   time.Time
	seen    api.AnsweredRequest
}

// Begin returns an observation; nil if nobody reads the monitor.
func (m *Monitor) Begin(method, path string, route wire.Route) *Observation {
	if !m.feed.Wanted() {
		return nil
	}
	now := time.Now()
	return &Observation{m, now, api.AnsweredRequest{
		At: unixSeconds(now), Method: method, Path: cut(path), Namespace: cut(route.Namespace), Key: cut(route.Key),
	}}
}

// cut returns the shown part of a path or a name. It copies, because a part of a long string would keep all
// of it in memory.
func cut(text string) string {
	if len(text) <= monitorName {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:monitorName], ""))
}

// BeginHTTP returns an observation of a request from net/http. It returns nil if nobody reads the
// monitor, and for a request that is neither for the memory API nor an append or an undo.
func (m *Monitor) BeginHTTP(r *http.Request) *Observation {
	if !m.feed.Wanted() {
		return nil
	}
	route := wire.ParseRoute(r.URL.Path)
	if r.URL.Path == Prefix+AppendPath || r.URL.Path == Prefix+UndoPath {
		query := r.URL.Query()
		route = wire.Route{Kind: wire.EntryRoute, Namespace: query.Get("namespace"), Key: query.Get("key")}
	}
	if route.Kind == wire.Other {
		return nil
	}
	o := m.Begin(r.Method, r.URL.Path, route)
	if o != nil && o.writes() {
		r.Body = &countedBody{r.Body, &o.seen.Bytes}
	}
	return o
}

func (o *Observation) writes() bool {
	return o.seen.Method == http.MethodPut || o.seen.Method == http.MethodPost
}

// Result records how the request was answered, or what became of its write.
func (o *Observation) Result(r *memory.Result) {
	if o == nil {
		return
	}
	o.seen.Answered = r.How()
	if r.Read && r.Source < memory.FromUpstream && r.Age != cache.Forever {
		age := r.Age.Seconds()
		o.seen.AgeSeconds = &age
	}
}

// End sends the observed request to the monitor. bytes is the size of the answer's body.
func (o *Observation) End(status, bytes int) {
	if o == nil {
		return
	}
	if !o.writes() {
		o.seen.Bytes = bytes
	}
	o.seen.Microseconds, o.seen.Status = time.Since(o.began).Microseconds(), status
	switch {
	case o.seen.Answered != "":
	case status >= http.StatusInternalServerError:
		o.seen.Answered = "failed"
	case status >= http.StatusBadRequest:
		o.seen.Answered = "refused"
	}
	o.monitor.feed.Add(o.seen)
}

// Read records how many bytes of the request's body were read.
func (o *Observation) Read(bytes int) {
	if o != nil {
		o.seen.Bytes = bytes
	}
}

type countedBody struct {
	io.ReadCloser
	bytes *int
}

func (b *countedBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	*b.bytes += n
	return n, err
}

// The names of the monitor's events.
const (
	eventRequest = "request"
	eventSkipped = "skipped"
)

func (s *Surface) followRequests(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace := p.namespace()
	if p.Err != nil {
		return p.Err
	}
	from, err := s.Monitor.feed.Follow()
	if err != nil {
		return tooManyReaders(err)
	}
	defer from.Close()
	tell := func(dst []byte, records []feed.Record[api.AnsweredRequest], missed uint64) ([]byte, time.Duration) {
		if missed > 0 {
			dst = appendEvent(dst, "", eventSkipped, api.Skipped{Requests: missed})
		}
		for i := range records {
			r := &records[i].Value
			if namespace == "" || r.Namespace == namespace {
				dst = appendEvent(dst, "", eventRequest, r)
			}
		}
		return dst, 0
	}
	beat := func(dst []byte) []byte { return sse.AppendComment(dst, "botwired") }
	return (&stream[api.AnsweredRequest]{from, beat(sse.AppendRetry(nil, reconnectAfter)), tell, beat}).answer(s.tasks, w, r)
}
