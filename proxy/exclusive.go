package proxy

import (
	"context"
	"log/slog"
	"maps"
	"math/bits"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/journal"
)

// foreignQueue bounds the entries that wait to be told of, and asked again, because somebody else
// has written them. Of more, the status counts all, and the log and the refreshes have some.
const foreignQueue = 1024

// intruders are the writes that others have made in namespaces that are set exclusive.
type intruders struct {
	exclusive func(namespace string) bool
	logger    *slog.Logger
	metrics   *metrics.Metrics
	found     chan journal.ID

	mu sync.Mutex // innermost; guards of
	of map[string]intrusion
}

// intrusion is what others have written to an exclusive namespace since the start.
type intrusion struct {
	count int
	last  time.Time
	key   string // of the last one
}

func newIntruders(exclusive func(string) bool, counters *metrics.Metrics, logger *slog.Logger) *intruders {
	return &intruders{
		exclusive: exclusive, metrics: counters, logger: logger, found: make(chan journal.ID, foreignQueue), of: make(map[string]intrusion),
	}
}

// Changed must be called for each change of the journal, where it is announced.
func (s *Server) Changed(c journal.Change) {
	if c.Foreign {
		s.memory.intruders.note(c.ID)
	}
	s.surface.events.changed(c)
}

func (i *intruders) note(id journal.ID) {
	if !i.exclusive(id.Namespace) {
		return
	}
	i.metrics.ForeignWrites.Inc()
	i.mu.Lock()
	seen, known := i.of[id.Namespace]
	if known || len(i.of) < usedAtMost {
		i.of[id.Namespace] = intrusion{seen.count + 1, time.Now(), id.Key}
	}
	i.mu.Unlock()
	select {
	case i.found <- id:
	default:
	}
}

func (i *intruders) all() map[string]intrusion {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.of)
}

// run tells of what is found until ctx ends, and asks upstream again for the entries: their
// copies would answer for good.
func (i *intruders) run(ctx context.Context, m *memory) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case id := <-i.found:
			i.tell(id)
			// An entry that cannot be asked for keeps its copy. The log has told of it.
			_ = fetchEntry(ctx, m, id) // guard 9.29
		}
	}
}

// tell logs the first, second, fourth, eighth and so on of a namespace's.
func (i *intruders) tell(id journal.ID) {
	i.mu.Lock()
	count := i.of[id.Namespace].count
	i.mu.Unlock()
	if bits.OnesCount(uint(count)) == 1 {
		i.logger.Warn("somebody else writes to a namespace that is set exclusive: botwired does not see such writes in time; take exclusive off the namespace, or keep the other writer out",
			"namespace", id.Namespace, "key", id.Key, "found", count)
	}
}
