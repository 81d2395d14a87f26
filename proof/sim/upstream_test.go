package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// stored is an entry upstream.
type stored struct {
	value            string
	sealed           string // as the service has got it
	created, updated float64
	by               string    // the host that has written it
	came             time.Time // to the service
}

// service is BotWire's memory service with faults. Unlike the real one, it notices when
// two requests of its clients overlap.
type service struct {
	listener *listener
	server   *http.Server
	done     chan struct{}
	// latency is from a request's arrival until it is done; tardy, if not nil, lets
	// time pass between that and the answer.
	latency time.Duration
	tardy   func()

	mu    sync.Mutex
	fence int // no request on a connection from before the last fence is carried out
	now   condition
	in    map[string]condition // namespaces whose health is another
	// dialing and answering, if not nil, stand for the service.
	dialing    func(context.Context) (net.Conn, error)
	answering  func(http.ResponseWriter, *http.Request)
	entries    map[journal.ID]stored
	quota      quota.Limit
	shared     bool // by two daemons
	meters     map[string]*meter
	judged     judged
	clock      float64
	behind     time.Duration // how far its clock was set back
	underWay   map[sight]*int
	flickers   int // the writes that came while it was flaky
	running    int // requests under way, and the most there were at once
	peak       int
	violations []string
	prompt     bool // requests arrive when they are sent
	sights     sights
	overwrites overwrites
	windows    windows
	log        []string // the requests and answers, for the report of a violation
	started    time.Time
	pending    sync.WaitGroup // late requests
	closing    chan struct{}
	veil       *veil       // nil if its clients do not seal
	odd        []wire.Item // rows of each list that are no entry's
}

func newService() *service { return newServiceOf(settings{}) }

// newServiceOf returns a service for clients with some settings.
func newServiceOf(with settings) *service {
	s := &service{
		listener:   &listener{Listener: pipe.Listen()},
		done:       make(chan struct{}),
		entries:    make(map[journal.ID]stored),
		meters:     make(map[string]*meter),
		in:         make(map[string]condition),
		judged:     newJudged(),
		prompt:     true,
		overwrites: newOverwrites(),
		windows:    newWindows(with.lateWindow),
		underWay:   make(map[sight]*int),
		closing:    make(chan struct{}),
		started:    time.Now(),
		latency:    50 * time.Millisecond,
	}
	if with.keys != nil {
		s.veil = newVeil(with.keys)
	}
	s.listener.accepting = s.veil.watched(s.listener.Listener)
	s.server = &http.Server{Handler: s, ConnContext: s.stamp}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(s.listener)
	}()
	return s
}

func (s *service) close() {
	close(s.closing)
	_ = s.server.Close()
	<-s.done
	s.pending.Wait()
}

// become changes the health of a namespace, or with "" of all.
func (s *service) become(c condition, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if namespace != "" {
		s.in[namespace] = c
		return
	}
	clear(s.in)
	if s.now = c; c.fault == down {
		s.listener.cut()
	}
}

// condition is the health of a namespace. The caller holds mu.
func (s *service) condition(namespace string) condition {
	if c, ok := s.in[namespace]; ok {
		return c
	}
	return s.now
}

// fenced is the key under which a connection's context has its fence.
type fenced struct{}

func (s *service) stamp(ctx context.Context, _ net.Conn) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return context.WithValue(ctx, fenced{}, s.fence)
}

// cutOff ends all connections, and their requests are no longer carried out. Otherwise
// a request that was read and not yet carried out could still land late.
func (s *service) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fence++
	clear(s.underWay)
	s.listener.cut()
}

// forget empties the service, like a restart without its disk.
func (s *service) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.entries)
}

// setBack sets the clock back.
func (s *service) setBack(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind, s.clock = s.behind+by, 0
}

func (s *service) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	refused, dialing := s.now.fault == down, s.dialing
	s.mu.Unlock()
	if dialing != nil {
		return dialing(ctx)
	}
	if refused {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return s.listener.Dial(ctx)
}

func (s *service) snapshot() map[journal.ID]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[journal.ID]string)
	for id, e := range s.entries {
		out[id] = e.value
	}
	return out
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	route := wire.ParseRoute(r.URL.Path)
	s.mu.Lock()
	id, hidden := s.veil.open(journal.ID{Namespace: route.Namespace, Key: route.Key})
	if hidden != nil {
		s.violations = append(s.violations, hidden.Error())
	}
	how, answering := s.condition(id.Namespace), s.answering
	w.Header().Set("Date", time.Now().Add(-skewOf(r)-s.behind).UTC().Format(http.TimeFormat))
	r = s.arrives(r, id, body)
	s.note("%s %s %s, %s", r.Method, id, body, how.fault)
	s.running++
	s.peak = max(s.peak, s.running)
	s.mu.Unlock()
	if r.Method != http.MethodGet {
		defer s.underWayUntilGivenUp(r, id)()
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
		s.note("%s %s %s, %s: done", r.Method, id, body, how.fault)
	}()
	if answering != nil {
		answering(w, r)
		return
	}
	if r.Method != http.MethodGet {
		answer := &noted{ResponseWriter: w}
		defer s.opens(r, id, answer)()
		w = answer
	}
	if r.Method != http.MethodGet && !s.admits(w, id.Namespace, how) {
		return
	}
	s.answer(w, r, id, body, how)
}

// underWayUntilGivenUp counts a write until it is over, or its client no longer waits for
// the answer: then the next one may come while the service is still at work on this one. If the daemon was killed,
// the service may notice that only after the daemon's successor has sent the next write: see starts.
func (s *service) underWayUntilGivenUp(r *http.Request, id journal.ID) (over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := sightOf(r, id)
	if s.underWay[of] == nil {
		s.underWay[of] = new(int)
	}
	n := s.underWay[of]
	if *n++; *n > 1 {
		s.violations = append(s.violations, fmt.Sprintf("contract 12: two requests under way for %s", id))
	}
	over = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*n--
	})
	context.AfterFunc(r.Context(), over)
	return over
}

func (s *service) answer(w http.ResponseWriter, r *http.Request, id journal.ID, body []byte, how condition) {
	if s.fails(w, r, id, body, how) {
		return
	}
	s.sleep(s.latency)
	status, answer := s.apply(r, id, body, true)
	if s.tardy != nil {
		s.tardy()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// note adds to the log. The caller holds mu.
func (s *service) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%12s ", time.Since(s.started))+fmt.Sprintf(format, args...))
}

// Write adds the daemon's log to the service's.
func (s *service) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("botwired: %s", strings.TrimSpace(string(line)))
	return len(line), nil
}

// sleep ends early when the service is closed.
func (s *service) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.closing:
	}
}

// applyLater carries a request out when its client has given up on it: some time after its
// arrival, or after its end.
func (s *service) applyLater(r *http.Request, id journal.ID, body []byte, lateness time.Duration, fromEnd bool) {
	s.pending.Add(1)
	go func() {
		defer s.pending.Done()
		if fromEnd {
			select {
			case <-r.Context().Done():
			case <-s.closing:
				return
			}
		}
		select {
		case <-time.After(lateness):
			s.apply(r, id, body, false)
		case <-s.closing:
		}
	}()
}

// apply carries a request out. answered says that its client learns of it.
func (s *service) apply(r *http.Request, id journal.ID, body []byte, answered bool) (int, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Context().Value(fenced{}) != s.fence {
		return http.StatusServiceUnavailable, nil
	}
	hidden, heard := s.veil.hide(id), answered && r.Context().Err() == nil
	switch {
	case id.Key == "":
		return http.StatusOK, s.list(id.Namespace, skewOf(r))
	case r.Method == http.MethodGet:
		if s.sights.look(r, id); heard {
			s.overwrites.shows(r, id)
		}
		return s.show(id, skewOf(r))
	}
	what, text := s.written(id, body)
	if violation := s.judged.write(id, what, answered); violation != "" {
		s.violations = append(s.violations, violation)
	}
	old, ok := s.entries[id]
	s.overwrites.replace(r, id, what, old, heard)
	if what.present {
		s.sights.write(r, id, what.value)
		s.set(id, what.value, text, r.Header.Get(hostHeader))
		return http.StatusOK, wire.AppendStored(nil, hidden.Namespace, hidden.Key, wire.CodePoints(text))
	}
	if !ok {
		return http.StatusNotFound, wire.NotFound(hidden.Namespace, hidden.Key).Body
	}
	delete(s.entries, id)
	return http.StatusOK, wire.AppendDeleted(nil, hidden.Namespace, hidden.Key)
}

// written returns the state that a write makes, and its value as it came. The caller holds mu.
func (s *service) written(id journal.ID, body []byte) (what state, text string) {
	var doc struct{ Value *string }
	if json.Unmarshal(body, &doc) != nil || doc.Value == nil {
		return state{}, ""
	}
	value, err := s.veil.value(id, *doc.Value)
	if err != nil {
		s.violations = append(s.violations, err.Error())
	}
	return state{true, value}, *doc.Value
}

// set stores a value of a host's. The caller holds mu.
func (s *service) set(id journal.ID, value, sealed, by string) {
	s.clock = max(s.clock+1e-6, float64(time.Now().Add(-s.behind).UnixMicro())/1e6)
	e, ok := s.entries[id]
	if !ok {
		e.created = s.clock
	}
	e.value, e.sealed, e.updated, e.by, e.came = value, sealed, s.clock, by, time.Now()
	s.entries[id] = e
}

func (s *service) show(id journal.ID, skew time.Duration) (int, []byte) {
	e, ok := s.entries[id]
	hidden := s.veil.hide(id)
	if !ok {
		return http.StatusNotFound, wire.NotFound(hidden.Namespace, hidden.Key).Body
	}
	return http.StatusOK, wire.Entry{
		Namespace: hidden.Namespace, Key: hidden.Key, Value: cmp.Or(e.sealed, e.value), CreatedAt: skewed(e.created, skew), UpdatedAt: skewed(e.updated, skew),
	}.AppendJSON(nil)
}

func (s *service) list(namespace string, skew time.Duration) []byte {
	var items []wire.Item
	for id, e := range s.entries {
		if id.Namespace == namespace {
			items = append(items, wire.Item{Key: s.veil.hide(id).Key, Bytes: wire.ListBytes(cmp.Or(e.sealed, e.value)), UpdatedAt: skewed(e.updated, skew)})
		}
	}
	slices.SortFunc(items, func(a, b wire.Item) int {
		if a.UpdatedAt > b.UpdatedAt {
			return -1
		}
		return 1
	})
	return wire.Listing{Namespace: s.veil.hide(journal.ID{Namespace: namespace}).Namespace, Items: append(items, s.odd...)}.AppendJSON(nil)
}

// listener is a network whose connections can be cut.
type listener struct {
	*pipe.Listener
	accepting net.Listener // the same, or one that watches it

	mu   sync.Mutex
	open []net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.accepting.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c)
	return c, nil
}

// cut ends all connections, like a service that goes down.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

func (l *listener) Close() error {
	l.cut()
	return l.Listener.Close()
}
