package day

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/internal/wire"
)

// latency is how far away the service is.
const latency = 50 * time.Millisecond

// stored is an entry of the service. Its value is as on the wire.
type stored struct {
	value            string
	created, updated float64
}

// space is a namespace of the service.
type space struct {
	entries map[string]stored
	window  int64 // of the quota
	taken   int   // writes within it
	most    int   // writes taken within any window
	refused int   // writes, for the quota
}

// service is BotWire's memory service: it keeps all in memory, and takes so many writes of a namespace
// within each window. It takes values as the agents write them: of ASCII, and without an escape but \".
type service struct {
	quota    int
	period   time.Duration
	listener *pipe.Listener
	server   *http.Server
	done     chan struct{}

	mu            sync.Mutex // guards what follows
	spaces        map[string]*space
	clock         float64
	reads, writes int // requests that came
}

func newService(quota int, period time.Duration) *service {
	return &service{quota: quota, period: period, spaces: make(map[string]*space)}
}

// listen serves over pipes until close.
func (s *service) listen() {
	s.listener, s.done = pipe.Listen(), make(chan struct{})
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(s.listener)
	}()
}

func (s *service) close() error {
	err := errors.Join(s.server.Close(), s.listener.Close())
	<-s.done
	return err
}

func (s *service) dial(ctx context.Context) (net.Conn, error) { return s.listener.Dial(ctx) }

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	status, text := s.carryOut(r.Method, r.URL.Path, string(body))
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.windowEnds()/time.Second)+1))
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// windowEnds is how long the present window of the quota lasts yet.
func (s *service) windowEnds() time.Duration {
	return s.period - time.Duration(time.Now().UnixNano()%int64(s.period))
}

// do implements [memory], without a daemon.
func (s *service) do(method, path, body, _ string) (*answer, error) {
	status, text := s.carryOut(method, path, body)
	return &answer{status: status, body: text}, nil
}

func (s *service) rest() {}

// carryOut counts a request when it arrives, and answers it after the way of it.
func (s *service) carryOut(method, path, body string) (status int, text []byte) {
	route := wire.ParseRoute(path)
	admitted := s.admit(method, route.Namespace)
	time.Sleep(latency)
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.spaces[route.Namespace]
	switch {
	case !admitted:
		in.refused++
		return http.StatusTooManyRequests, wire.Detail(http.StatusTooManyRequests, "the quota is used up").Body
	case route.Key == "":
		return http.StatusOK, in.list(route.Namespace)
	case method == http.MethodGet:
		return in.show(route.Namespace, route.Key)
	}
	value, ok := strings.CutPrefix(body, `{"value":`)
	if !ok || method != http.MethodPut {
		return http.StatusUnprocessableEntity, wire.Detail(http.StatusUnprocessableEntity, "no agent sends this").Body
	}
	value = value[:len(value)-1]
	s.clock = max(s.clock+1e-6, float64(time.Now().UnixMicro())/1e6)
	e := in.entries[route.Key]
	in.entries[route.Key] = stored{value, cmp.Or(e.created, s.clock), s.clock}
	return http.StatusOK, wire.AppendStored(nil, route.Namespace, route.Key, characters(value))
}

// admit counts a request, and reports whether the quota allows it.
func (s *service) admit(method, namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.spaces[namespace]
	if in == nil {
		in = &space{entries: make(map[string]stored)}
		s.spaces[namespace] = in
	}
	if method == http.MethodGet {
		s.reads++
		return true
	}
	s.writes++
	if now := time.Now().UnixNano() / int64(s.period); now != in.window {
		in.window, in.taken = now, 0
	}
	if in.taken == s.quota {
		return false
	}
	in.taken++
	in.most = max(in.most, in.taken)
	return true
}

func (sp *space) show(namespace, key string) (int, []byte) {
	e, ok := sp.entries[key]
	if !ok {
		return http.StatusNotFound, wire.NotFound(namespace, key).Body
	}
	return http.StatusOK, fmt.Appendf(make([]byte, 0, len(e.value)+200), `{"namespace":%q,"key":%q,"value":%s,"created_at":%f,"updated_at":%f}`,
		namespace, key, e.value, e.created, e.updated)
}

func (sp *space) list(namespace string) []byte {
	items := make([]wire.Item, 0, len(sp.entries))
	for key, e := range sp.entries {
		items = append(items, wire.Item{Key: key, Bytes: characters(e.value), UpdatedAt: e.updated})
	}
	slices.SortFunc(items, func(a, b wire.Item) int { return cmp.Compare(b.UpdatedAt, a.UpdatedAt) })
	return wire.Listing{Namespace: namespace, Items: items}.AppendJSON(nil)
}

// characters is the length of a value as on the wire, without its quotes and escapes.
func characters(value string) int { return len(value) - len(`""`) - strings.Count(value, `\`) }

// counts are what the service has seen.
type counts struct {
	reads, writes, refused int
	ranOut                 int // namespaces of which it has refused a write
	most                   int // writes of a namespace that it took within a window
}

func (s *service) counts() counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := counts{reads: s.reads, writes: s.writes}
	for _, in := range s.spaces {
		c.refused += in.refused
		c.most = max(c.most, in.most)
		if in.refused > 0 {
			c.ranOut++
		}
	}
	return c
}

// differs returns the first difference between what the agents' memory has acknowledged and what the
// service holds; "" if there is none.
func (s *service) differs(agents []*agent) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range agents {
		in := s.spaces[a.namespace]
		if len(in.entries) != len(a.holds) {
			return fmt.Sprintf("%s has %d entries upstream, and %d were written", a.namespace, len(in.entries), len(a.holds))
		}
		for key, value := range a.holds {
			if got := in.entries[key].value; got != value {
				return fmt.Sprintf("upstream has %.200q of %s/%s, and %.200q was written last", got, a.namespace, key, value)
			}
		}
	}
	return ""
}
