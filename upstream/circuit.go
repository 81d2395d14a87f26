package upstream

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/internal/loggingmutex"
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

// Circuit is upstream's health as one kind of request shows it, and the breaker that stops
// such requests while upstream is down.
//
// Entries that have failed since the last success are suspects. Two suspects make an
// outage, and so does a service that cannot be reached. A success shows that the other
// suspects are sick themselves: for a while, their failures are no evidence. Otherwise a
// few sick entries would stop the others again and again (contract 16).
type Circuit struct {
	sickFor time.Duration
	health  *Health // told of each outcome

	mu       *loggingmutex.Mutex // health's, which guards the fields below
	backoff  *backoff.ExponentialBackOff
	failing  bool // the last outcome was a failure
	down     bool
	suspects map[journal.ID]time.Time // when each failed first
	sick     map[journal.ID]sickness
	since    time.Time // when failing began

	probeAt       time.Time // when a request may be tried while down
	probing       bool      // it is under way
	probeFailedAt time.Time
	onNudge       func() // called when a probe may go at once; may be nil

	hanging  bool                 // the last failure was a request that was not answered
	hoping   bool                 // a request goes beside the probe: see hope
	failedIn map[string]time.Time // by namespace, when a request last failed, if none has gone well since

	failures    int    // since the last success
	foreign     bool   // none of them was an answer of upstream's own
	kept        bool   // one of them has kept somebody waiting for long
	reason      string // of the last failure, for people
	lastSuccess time.Time
	lastReason  string // like reason, but it outlasts a success
	lastFailure time.Time
	lastSick    journal.ID // the sick entry that has failed again last
}

// sickness is the state of an entry that fails while others do not.
type sickness struct {
	at    time.Time // of its last failure
	again bool      // it has failed since the others went well
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

// Success records a request about id that upstream itself answered sensibly.
func (c *Circuit) Success(id journal.ID, probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, wasFailing := time.Now(), c.failing
	delete(c.suspects, id)
	delete(c.sick, id)
	delete(c.failedIn, id.Namespace)
	if c.down { // during an outage, the sick entries had no turn to show that they still fail
		for s, sickness := range c.sick {
			sickness.at = now
			c.sick[s] = sickness
		}
	}
	for s := range c.suspects {
		Remember(c.sick, s, sickness{at: now})
	}
	clear(c.suspects)
	c.failing, c.down, c.failures, c.kept, c.reason = false, false, 0, false, ""
	c.lastSuccess = now
	c.probing = c.probing && !probe
	c.backoff.Reset()
	c.health.succeeded(c, wasFailing)
}

// Failure records a request about id that upstream itself has not answered, or whose
// failure says more of upstream than of the entry. It reports whether upstream is down.
func (c *Circuit) Failure(id journal.ID, probe bool, failed *Error, sent time.Time) (down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed(id, probe, failed, sent)
}

// failed is failure for a caller that holds mu.
func (c *Circuit) failed(id journal.ID, probe bool, failed *Error, sent time.Time) (down bool) {
	now, wasDown := time.Now(), c.down
	c.note(id, failed, sent, now)
	if probe {
		c.probing, c.probeFailedAt = false, now
	}
	if c.down && (!wasDown || probe) {
		// Requests that were under way when upstream went down say nothing new.
		c.probeAt = now.Add(c.backoff.NextBackOff())
	}
	c.health.update()
	return c.down
}

// overdue records a request about id that has kept its callers waiting for as long as
// they wait. It is still under way, and ends with success, failure or release.
func (c *Circuit) overdue(id journal.ID, failed *Error, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = true
	c.failed(id, false, failed, sent) // guard 9.12
}

// note takes in a failure. The caller holds mu.
func (c *Circuit) note(id journal.ID, failed *Error, sent, now time.Time) {
	if !c.failing {
		c.failing, c.since, c.foreign = true, sent, true
	}
	c.lastFailure = now
	c.reason, c.lastReason = failed.Reason, failed.Reason
	c.down = c.down || failed.Unreachable
	c.hanging = failed.Verdict == Unanswered
	Remember(c.failedIn, id.Namespace, now)
	if s, ok := c.sick[id]; ok && now.Sub(s.at) < c.sickFor { // guard 16.19
		c.sick[id] = sickness{at: now, again: true}
		c.lastSick = id
		return
	}
	delete(c.sick, id)
	if _, ok := c.suspects[id]; !ok {
		Remember(c.suspects, id, sent)
	}
	c.failures++
	c.foreign = c.foreign && !failed.Answered
	if !failed.Verdict.BlamesUpstream() {
		return // perhaps only the namespace is refused on the way
	}
	c.kept = c.kept || failed.Verdict == Unanswered && c == &c.health.writes // its entry is in doubt
	c.down = c.down || len(c.suspects) >= outageEntries
}

// ProbeBy has other waits between probes than the health's, and calls onNudge when a probe may go at once.
// It is called before the circuit is used.
func (c *Circuit) ProbeBy(waits *backoff.ExponentialBackOff, onNudge func()) {
	c.backoff, c.onNudge = waits, onNudge
}

// Remember adds to a set of bounded size: any other element may have to make room.
func Remember[K comparable, V any](set map[K]V, key K, value V) {
	if _, ok := set[key]; !ok && len(set) >= entriesRemembered {
		for other := range set {
			delete(set, other)
			break
		}
	}
	set[key] = value
}

// Admit reports whether a request may be made now, and whether it is a probe, which ends
// with Success, Failure or Release. While upstream is down, Admit lets one probe through
// at a time, and else says when to ask again; zero is when the probe has ended.
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

// hope reports whether a request about the namespace may be made though upstream is
// believed down: the requests of other namespaces hang, the probe among them, and none of
// its own has failed. One such request at a time keeps a namespace that is well from
// waiting for the others. The request ends with hoped.
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

// Blocks reports whether no request about the namespace would be admitted now.
func (c *Circuit) Blocks(namespace string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down && (c.probing || now.Before(c.probeAt)) && !c.mayHope(namespace, now) // guard 16.3b
}

// Release ends a probe that was not made, or that shows nothing of upstream.
func (c *Circuit) Release(probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = c.probing && !probe
}

// Nudge lets the next probe go at once: there is reason to think that upstream is back.
func (c *Circuit) Nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probeAt = time.Time{}
}

// endOutage ends an outage because requests of another kind go through. Requests of this
// kind stay suspect until one succeeds: their outage has lasted since its beginning, and
// a probe that is under way still has to come back. The caller holds mu.
func (c *Circuit) endOutage() {
	if c.down {
		c.down = false
		c.backoff.Reset()
	}
}

// knownToFail reports whether a request about id would fail as far as this circuit can
// tell, and since when. For a sick entry it names a time long ago.
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
	return time.Time{}, ok && s.again && now.Sub(s.at) < c.sickFor
}

// View is a circuit's state at one moment.
type View struct {
	Failing       bool
	Down          bool
	Since         time.Time // when failing began, if failing
	ProbeFailedAt time.Time
	RetryIn       time.Duration
	Reason        string
}

// View returns the present state.
func (c *Circuit) View() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return View{c.failing, c.down, c.since, c.probeFailedAt, max(0, time.Until(c.probeAt)), c.reason}
}
