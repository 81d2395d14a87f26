package upstream

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/internal/loggingmutex"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/limit"
)

const (
	// outageEntries is how many entries have to fail, with no success in between, before upstream
	// counts as down. A single entry may itself be the cause.
	outageEntries = 2
	// sickForBackoffs is how long an entry counts as sick after its last failure, in longest backoffs.
	// A sick entry is retried after about one longest backoff.
	sickForBackoffs = 2
)

// Circuit tracks upstream's health for one kind of request. It is the breaker that stops such requests
// while upstream is down.
//
// Entries that have failed since the last success are suspects. Two suspects are an outage, and so is a
// service that cannot be reached. A success shows that the other suspects are sick themselves: for a
// while, their failures are no evidence. Otherwise a few sick entries would stop all the others again
// and again (contract 16).
type Circuit struct {
	sickFor time.Duration
	health  *Health // receives each outcome

	mu       *loggingmutex.Mutex // the health's; guards the fields below
	backoff  *backoff.ExponentialBackOff
	failing  bool // the last outcome was a failure
	down     bool
	suspects map[journal.ID]time.Time // with the time of each one's first failure
	sick     map[journal.ID]sickness
	since    time.Time // when failing began

	probeAt       time.Time // when a probe may be made while down
	probing       bool      // a probe is in flight
	probeFailedAt time.Time
	onNudge       func() // called when a probe may be made at once; may be nil

	hanging  bool                 // the last failure was a request that was not answered
	hoping   bool                 // a request is in flight beside the probe: see hope
	failedIn map[string]time.Time // by namespace, when a request last failed; a success deletes it

	failures    int    // since the last success
	foreign     bool   // upstream itself answered none of them
	kept        bool   // a failure kept a caller waiting for long, or an entry waiting for its late window
	reason      string // of the last failure, for people
	lastSuccess time.Time
	lastReason  string // like reason, but a success does not clear it
	lastFailure time.Time
}

// sickness is the state of an entry that fails while others succeed.
type sickness struct {
	since time.Time // when its first failed request began
	at    time.Time // of its last failure
	again bool      // it has failed again since others succeeded
}

func (c *Circuit) init(h *Health, initial, longest time.Duration) {
	*c = Circuit{
		sickFor:  sickForBackoffs * longest,
		health:   h,
		mu:       &h.mu,
		backoff:  NewBackoff(initial, longest),
		suspects: make(map[journal.ID]time.Time),
		sick:     make(map[journal.ID]sickness),
		failedIn: make(map[string]time.Time),
	}
}

// Success records a request about id to which upstream itself gave a sensible answer.
func (c *Circuit) Success(id journal.ID, probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, wasFailing := time.Now(), c.failing
	delete(c.suspects, id)
	delete(c.sick, id)
	delete(c.failedIn, id.Namespace)
	if c.down { // during an outage, sick entries had no chance to show that they still fail
		for s, sickness := range c.sick {
			sickness.at = now
			c.sick[s] = sickness
		}
	}
	for s, since := range c.suspects {
		limit.Remember(c.sick, s, sickness{since: since, at: now})
	}
	clear(c.suspects)
	c.failing, c.down, c.failures, c.kept, c.reason = false, false, 0, false, ""
	c.lastSuccess = now
	c.probing = c.probing && !probe
	c.backoff.Reset()
	c.health.succeeded(c, wasFailing)
}

// Failure records a request about id that upstream itself did not answer, or whose failure says more
// about upstream than about the entry. It reports whether upstream is down.
func (c *Circuit) Failure(id journal.ID, probe bool, failed *Error, sent time.Time) (down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed(id, probe, failed, sent)
}

// failed records a failure: see [Circuit.Failure]. The caller holds mu.
func (c *Circuit) failed(id journal.ID, probe bool, failed *Error, sent time.Time) (down bool) {
	now, wasDown := time.Now(), c.down
	c.note(id, failed, sent, now)
	if probe {
		c.probing, c.probeFailedAt = false, now
	}
	if c.down && (!wasDown || probe) {
		// Failures of requests that were in flight when upstream went down are no news.
		c.probeAt = now.Add(c.backoff.NextBackOff())
	}
	c.health.update()
	return c.down
}

// overdue records a request about id that its callers have stopped waiting for. It is still in flight,
// and ends with Success, Failure or Release.
func (c *Circuit) overdue(id journal.ID, failed *Error, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = c.kept || !c.isKnownSick(id, time.Now()) // guard 16.63
	c.failed(id, false, failed, sent)                 // guard 9.12
}

// note records a failure. The caller holds mu.
func (c *Circuit) note(id journal.ID, failed *Error, sent, now time.Time) {
	if !c.failing {
		c.failing, c.since, c.foreign = true, sent, true
	}
	c.lastFailure = now
	c.reason, c.lastReason = failed.Reason, failed.Reason
	c.down = c.down || failed.Unreachable
	c.hanging = failed.Verdict == Unanswered
	limit.Remember(c.failedIn, id.Namespace, now)
	if c.isKnownSick(id, now) { // guard 16.19
		c.sick[id] = sickness{since: c.sick[id].since, at: now, again: true}
		return
	}
	delete(c.sick, id)
	if _, ok := c.suspects[id]; !ok {
		limit.Remember(c.suspects, id, sent)
	}
	c.failures++
	c.foreign = c.foreign && !failed.Answered
	if !failed.Verdict.BlamesUpstream() {
		return // perhaps only the namespace is refused by something in between
	}
	c.kept = c.kept || failed.Verdict == Unanswered && c == &c.health.writes // the entry waits for its late window
	c.down = c.down || len(c.suspects) >= outageEntries
}

// ProbeBy replaces the waits between probes. onNudge is called when a probe may be made at once. Call
// ProbeBy before the circuit is used.
func (c *Circuit) ProbeBy(waits *backoff.ExponentialBackOff, onNudge func()) {
	c.backoff, c.onNudge = waits, onNudge
}

// Admit reports whether a request may be made now, and whether it is a probe. A probe ends with
// Success, Failure or Release. While upstream is down, Admit allows one probe at a time. If ok is
// false, at is the time of the next probe; zero means after the probe in flight has ended.
func (c *Circuit) Admit(now time.Time) (ok, probe bool, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.down: // guard 16.4
		return true, false, time.Time{}
	case c.probing: // guard 16.3
		return false, false, time.Time{}
	case now.Before(c.probeAt):
		return false, false, c.probeAt
	}
	c.probing = true
	return true, true, time.Time{}
}

// hope reports whether a request about the namespace may be made although upstream is believed down:
// requests of other namespaces hang, and no request of this namespace has failed lately. One such
// request at a time keeps a healthy namespace from waiting for the others. The request ends with hoped.
func (c *Circuit) hope(namespace string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok := c.mayHope(namespace, now) // guard 16.16
	c.hoping = c.hoping || ok
	return ok
}

func (c *Circuit) hoped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hoping = false
}

func (c *Circuit) mayHope(namespace string, now time.Time) bool {
	at, failed := c.failedIn[namespace]
	return c.down && c.hanging && !c.hoping && (!failed || now.Sub(at) >= c.sickFor)
}

// Blocks reports whether a request about the namespace would be refused now.
func (c *Circuit) Blocks(namespace string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down && (c.probing || now.Before(c.probeAt)) && !c.mayHope(namespace, now) // guard 16.3b
}

// Release ends a probe that was not made, or that says nothing about upstream.
func (c *Circuit) Release(probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = c.probing && !probe
}

// Nudge allows the next probe at once: upstream may be back.
func (c *Circuit) Nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probeAt = time.Time{}
}

// endOutage ends an outage because requests of the other kind succeed. Requests of this kind stay
// suspect until one succeeds: failing and since do not change, and a probe in flight still has to end.
// The caller holds mu.
func (c *Circuit) endOutage() {
	if c.down {
		c.down = false
		c.backoff.Reset()
	}
}

// knownToFail reports whether this circuit expects a request about id to fail, and returns when the
// failures began. For a sick entry, since is zero.
func (c *Circuit) knownToFail(id journal.ID, now time.Time) (since time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return c.since, true
	}
	if at, ok := c.suspects[id]; ok {
		return at, true
	}
	s, ok := c.sick[id]
	return time.Time{}, ok && c.isSick(s, now)
}

// isKnownSick reports whether an entry has failed lately while others succeeded. A further failure of it is no news.
func (c *Circuit) isKnownSick(id journal.ID, now time.Time) bool {
	s, ok := c.sick[id]
	return ok && now.Sub(s.at) < c.sickFor
}

// isSick reports whether an entry has failed again since others succeeded, and lately.
func (c *Circuit) isSick(s sickness, now time.Time) bool { return s.again && now.Sub(s.at) < c.sickFor }

// CircuitState is the state of a circuit at one moment.
type CircuitState struct {
	Failing       bool
	Down          bool
	Since         time.Time // when failing began, if failing
	ProbeFailedAt time.Time
	RetryIn       time.Duration
	Reason        string
}

// State returns the present state.
func (c *Circuit) State() CircuitState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CircuitState{c.failing, c.down, c.since, c.probeFailedAt, max(0, time.Until(c.probeAt)), c.reason}
}
