package natskv

import (
	"sync"
	"time"

	"github.com/botwired/botwired/upstream"
)

// clocksApart is how far another host's clock may be ahead of this machine's, before its times no
// longer move those of this host's writes to other entries.
const clocksApart = time.Minute

// latest is the latest time of a write that was seen. A new write's time is later, whatever this
// machine's clock shows: it was made after this host had seen the other one. Its methods may be
// called concurrently.
type latest struct {
	mu     sync.Mutex
	micros int64 // since 1970
	ahead  map[string]bool
}

// see takes a version's time in. It returns by how much the writer's clock is ahead, once for each host
// whose clock is far ahead; else 0. Such a time does not count: one wrong clock would push all writes
// of all hosts into the future.
func (l *latest) see(v upstream.Version, now time.Time) time.Duration {
	at := upstream.Micros(v.WrittenAt)
	ahead := time.Duration(at-now.UnixMicro()) * time.Microsecond
	l.mu.Lock()
	defer l.mu.Unlock()
	if ahead <= clocksApart {
		l.micros = max(l.micros, at)
		return 0
	}
	if l.ahead[v.Writer.Host] {
		return 0
	}
	if l.ahead == nil {
		l.ahead = make(map[string]bool)
	}
	l.ahead[v.Writer.Host] = true
	return ahead
}

func (l *latest) get() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.micros
}
