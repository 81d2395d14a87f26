package upstream

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/journal"
)

const (
	// outageEntries is how many entries have to fail, with no success in between, for
	// upstream to be down: one may be at fault itself.
	outageEntries = 2
	// sickForBackoffs is for how many of the longest backoffs after its last failure an
	// entry still counts as sick. A sick entry is tried again in about one.
	sickForBackoffs = 2
	// entriesRemembered bounds the suspects, the sick entries, and the namespaces with
	// refused reads. Beyond it, evidence is lost: a sick entry may count as a sign of an
	// outage once more.
	entriesRemembered = 1024
)

// health is what is believed of upstream on the strength of one kind of request.
//
// Entries that have failed since the last success are suspects. Two suspects make an
// outage, and so does a service that cannot be reached. A success shows that the other
// suspects are sick themselves: for a while, their failures are no evidence. Otherwise a
// few sick entries would stop the others again and again (contract 16).
type health struct {
	sickFor time.Duration

	mu            sync.Mutex
	backoff       *backoff.ExponentialBackOff
	failing       bool // the last outcome was a failure
	down          bool
	suspects      map[journal.ID]time.Time // when each failed
	sick          map[journal.ID]time.Time // when each failed last
	since         time.Time                // when failing began
	probeAt       time.Time                // when a request may be tried while down
	probing       bool                     // it is under way
	probeFailedAt time.Time
	reason        string // of the last failure, for people
}

func newHealth(initial, longest time.Duration) *health {
	return &health{
		sickFor:  sickForBackoffs * longest,
		backoff:  newBackoff(initial, longest),
		suspects: make(map[journal.ID]time.Time),
		sick:     make(map[journal.ID]time.Time),
	}
}

// success records a request about id that upstream answered sensibly, and reports
// what was believed before.
func (h *health) success(id journal.ID, probe bool) (before view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = h.viewLocked()
	delete(h.suspects, id)
	delete(h.sick, id)
	if h.down { // during an outage, the sick entries had no turn to show that they still are
		for s := range h.sick {
			h.sick[s] = time.Now()
		}
	}
	for s := range h.suspects {
		remember(h.sick, s, time.Now())
	}
	clear(h.suspects)
	h.failing, h.down, h.reason = false, false, ""
	h.probing = h.probing && !probe
	h.backoff.Reset()
	return before
}

// failure records a request about id that says more of upstream than of the entry. It
// reports whether upstream is down, and whether it fell by this request. unreachable says
// that there was not even a connection.
func (h *health) failure(id journal.ID, probe, unreachable bool, reason string) (fell, down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !h.failing {
		h.failing, h.since = true, now
	}
	h.reason = reason
	wasDown := h.down
	h.down = h.down || unreachable || h.suspect(id, now)
	if probe {
		h.probing, h.probeFailedAt = false, now
	}
	if h.down && (!wasDown || probe) {
		// Requests that were under way when it went down say nothing new.
		h.probeAt = now.Add(h.backoff.NextBackOff())
	}
	return h.down && !wasDown, h.down
}

// suspect notes an entry's failure and reports whether there are enough of them for
// an outage.
func (h *health) suspect(id journal.ID, now time.Time) bool {
	if at, ok := h.sick[id]; ok && now.Sub(at) < h.sickFor {
		h.sick[id] = now
		return false
	}
	delete(h.sick, id)
	remember(h.suspects, id, now)
	return len(h.suspects) >= outageEntries
}

// remember adds to a set of bounded size: any other element may have to make room.
func remember[K comparable, V any](set map[K]V, key K, value V) {
	if _, ok := set[key]; !ok && len(set) >= entriesRemembered {
		for other := range set {
			delete(set, other)
			break
		}
	}
	set[key] = value
}

// admit reports whether a request may be made now, and whether it is a probe, which ends
// with success, failure or release. While upstream is down, admit lets one probe through
// at a time, and else says when to ask again; zero is when the probe has ended.
func (h *health) admit(now time.Time) (ok, probe bool, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.down:
		return true, false, time.Time{}
	case h.probing:
		return false, false, time.Time{}
	case now.Before(h.probeAt):
		return false, false, h.probeAt
	}
	h.probing = true
	return true, true, time.Time{}
}

// release ends a probe that was not made, or that shows nothing of upstream.
func (h *health) release(probe bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probing = h.probing && !probe
}

// nudge lets the next probe go at once: there is reason to think that upstream is back.
func (h *health) nudge() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probeAt = time.Time{}
}

// endOutage ends an outage because requests of another kind go through. Requests of this
// kind stay suspect until one succeeds: their outage has lasted since its beginning, and
// a probe that is under way still has to come back.
func (h *health) endOutage() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		h.down = false
		h.backoff.Reset()
	}
}

// view is what is believed now.
type view struct {
	failing       bool
	down          bool
	since         time.Time // when failing began, if failing
	probeFailedAt time.Time
	retryIn       time.Duration
	reason        string
}

func (h *health) view() view {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.viewLocked()
}

func (h *health) viewLocked() view {
	return view{h.failing, h.down, h.since, h.probeFailedAt, max(0, time.Until(h.probeAt)), h.reason}
}
