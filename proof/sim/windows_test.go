package sim

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/botwired/botwired/journal"
)

// No request for an entry overlaps another's window (contract 14): a write that a host gives up without an answer may
// land until the late window has passed. Before that, the host neither sends another write to the entry nor judges
// what it is shown of it, also after a crash or a restart. Only a daemon that is told to stop sends each entry once
// more.

// windows are an upstream's notes on what may still land. The service's lock guards them.
type windows struct {
	late     time.Duration // the late window; 0: nobody looks
	ends     map[sight]time.Time
	stopping map[string]bool // hosts whose daemon is told to stop
	again    map[sight]bool  // what such a daemon has sent once more
}

func newWindows(late time.Duration) windows {
	return windows{late, make(map[sight]time.Time), make(map[string]bool), make(map[sight]bool)}
}

// mayLand reports whether an answer with the status comes from a gateway that got none itself.
func mayLand(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// noted notes the status that a request is answered with; it is 0 if there is no answer.
type noted struct {
	http.ResponseWriter
	status int
}

func (n *noted) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

func (n *noted) Write(p []byte) (int, error) {
	if n.status == 0 {
		n.status = http.StatusOK
	}
	return n.ResponseWriter.Write(p)
}

// opens returns the function that ends a write. It opens the entry's window if the write is not answered, and otherwise
// the moment does in which the client gives up.
func (s *service) opens(r *http.Request, id journal.ID, answer *noted) (over func()) {
	open := sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.windows.ends[sightOf(r, id)] = time.Now().Add(s.windows.late)
	})
	heard := context.AfterFunc(r.Context(), open)
	return func() {
		if !heard() || answer.status == 0 || mayLand(answer.status) {
			open()
		}
	}
}

// arrives returns a violation if a write comes, or its host was shown the entry for it, before an older one can no
// longer land.
func (w *windows) arrives(of sight, shown time.Time) (violation string) {
	switch end := w.ends[of]; {
	case !shown.Before(end):
		return ""
	case w.stopping[of.host] && !w.again[of]:
		w.again[of] = true
		return ""
	default:
		return fmt.Sprintf("contract 14: host %q sends %s, which it was shown at %s, and an older request may land until %s", of.host, of.id, shown, end)
	}
}

// stops tells a host's daemon to stop, which flushes for so long.
func (s *service) stops(n *node, flushes time.Duration) {
	s.mu.Lock()
	s.windows.stopping[n.with.name] = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), flushes)
	defer cancel()
	n.flusher.Drain(ctx)
}
