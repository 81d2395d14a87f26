package upstream

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/botwired/botwired/internal/loggingmutex"
)

// State is how upstream does, for people and for monitoring.
type State string

// The states.
const (
	// Up: requests go well. A request that fails and then goes well changes nothing.
	Up State = "up"
	// Degraded: some requests fail again and again, and others do not, or nobody has
	// tried others.
	Degraded State = "degraded"
	// Down: no request goes well.
	Down State = "down"
)

// failuresTell is how many failures with no success in between are no blip, even if all are
// about one entry. They are an outage unless upstream itself has answered some of them.
const failuresTell = 3

// Report is how upstream does at some moment.
type Report struct {
	State State
	// Since is when the state began: if upstream is not up, with the first request that
	// failed.
	Since time.Time
	// Reason says why upstream is not up, for people; empty if it is.
	Reason string
	// LastSuccess is when upstream last answered sensibly; zero if it has not yet.
	LastSuccess time.Time
}

// HealthOptions configures a health.
type HealthOptions struct {
	// BackoffInitial and BackoffMax bound the wait between probes.
	BackoffInitial, BackoffMax time.Duration
	// OnState, if not nil, is called with every change of the state, with the health's lock held:
	// it must be quick and must not call the health.
	OnState func(Report)
	// Logger receives one line when the state becomes worse, and one when upstream is up
	// again. It must not be nil.
	Logger *slog.Logger
}

// Health is how upstream does, as all requests show it. Reads and writes have a circuit
// each, as one kind may fail while the other goes well; the state is that of both together.
// Its methods may be called concurrently.
type Health struct {
	onState       func(Report)
	mu            loggingmutex.Mutex // guards the fields below, the circuits' too
	reads, writes Circuit
	state         State
	worst         State     // the worst state that was logged since upstream was up
	since         time.Time // when upstream came to be up, or ceased to be
	lastSuccess   time.Time
}

// NewHealth returns the health of an upstream of which nothing bad is known.
func NewHealth(opts HealthOptions) *Health {
	h := &Health{onState: opts.OnState, mu: loggingmutex.Mutex{Logger: opts.Logger}, state: Up, worst: Up, since: time.Now()}
	h.reads.init(h, opts.BackoffInitial, opts.BackoffMax)
	h.writes.init(h, opts.BackoffInitial, opts.BackoffMax)
	return h
}

// Writes is the circuit of the requests that write.
func (h *Health) Writes() *Circuit { return &h.writes }

// Report says how upstream does.
func (h *Health) Report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.update() // a sick entry that nobody has tried again is forgotten
	return h.report()
}

// report is how upstream does by what is known. The caller holds mu.
func (h *Health) report() Report {
	return Report{State: h.state, Since: h.since, Reason: h.reason(), LastSuccess: h.lastSuccess}
}

// succeeded notes a success of one circuit, and what that means for the other. A write
// that goes through lets reads go again at once: the pause before their next probe was for
// a service that is down, and a caller who has just flushed expects an answer. A read is no
// such sign for writes, but their probe need not wait. Of an outage that both have seen, the
// first success is the end, until there are new failures. The caller holds mu.
func (h *Health) succeeded(c *Circuit, wasFailing bool) {
	h.lastSuccess = time.Now()
	other := h.other(c)
	if wasFailing {
		other.failures, other.kept = 0, false
	}
	switch {
	case other == &h.reads:
		other.endOutage() // guard 16.18
	case wasFailing:
		other.probeAt = time.Time{}
		if other.onNudge != nil {
			other.onNudge()
		}
	}
	h.update()
}

func (h *Health) other(c *Circuit) *Circuit {
	if c == &h.reads {
		return &h.writes
	}
	return &h.reads
}

// update finds the state anew, and logs it if it is worse than before, or well again. The
// caller holds mu.
func (h *Health) update() {
	state := h.judge()
	if state == h.state {
		return
	}
	if h.state == Up {
		h.since = h.failingSince()
	}
	h.state = state
	switch {
	case state == Up:
		h.mu.Log(slog.LevelInfo, "upstream is up again", "after", time.Since(h.since).Round(time.Millisecond).String())
		h.since, h.worst = time.Now(), Up
	case h.worst == Up, h.worst == Degraded && state == Down:
		h.worst = state
		h.mu.Log(slog.LevelWarn, logged[state], "reason", h.reason())
	}
	if h.onState != nil {
		h.onState(h.report())
	}
}

// logged are the lines of the log by the state that began.
var logged = map[State]string{
	Degraded: "upstream is degraded: some requests fail and are tried again",
	Down:     "upstream is down: reads are answered with what is known here, and writes wait in the journal",
}

// judge finds the state.
func (h *Health) judge() State {
	reads, writes := h.stateOf(&h.reads), h.stateOf(&h.writes)
	switch {
	case reads == Up && writes == Up:
		return Up
	case reads == Down && !h.writes.wellSince(h.reads.since), writes == Down && !h.reads.wellSince(h.writes.since):
		return Down
	}
	return Degraded
}

// stateOf is the state that one circuit shows. Failures that nobody has repeated for long
// are forgotten if the other kind of request goes well.
func (h *Health) stateOf(c *Circuit) State {
	repeated := time.Since(c.lastFailure) < c.sickFor || !h.other(c).wellSince(c.lastFailure)
	switch {
	case repeated && (c.down || c.foreign && c.failures >= failuresTell): // guard 16.17
		return Down
	case repeated && (c.kept || c.failures >= failuresTell), c.sickAgain():
		return Degraded
	}
	return Up
}

// sickAgain reports whether an entry fails that failed before, while others do not.
func (c *Circuit) sickAgain() bool {
	s, ok := c.sick[c.lastSick]
	return ok && s.again && time.Since(s.at) < c.sickFor
}

// wellSince reports whether a request has gone well since a time, and none has failed
// after it.
func (c *Circuit) wellSince(t time.Time) bool { return !c.failing && c.lastSuccess.After(t) }

// failingSince is when the first request failed of those that keep upstream from being up.
func (h *Health) failingSince() time.Time {
	since := time.Now()
	for _, c := range []*Circuit{&h.reads, &h.writes} {
		if c.failing && c.since.Before(since) {
			since = c.since
		}
	}
	return since
}

// reason says why upstream is not up.
func (h *Health) reason() string {
	reads, writes := h.why(&h.reads), h.why(&h.writes)
	switch {
	case h.state == Up:
		return ""
	case h.state == Down:
		if h.stateOf(&h.reads) == Down {
			return h.reads.lastReason
		}
		return cmp.Or(h.writes.lastReason, h.reads.lastReason)
	case reads == writes:
		return reads
	case writes == "":
		return "reads fail: " + reads
	case reads == "":
		return "writes fail: " + writes
	}
	return "reads fail: " + reads + "; writes fail: " + writes
}

// why is the reason of a circuit's last failure; empty if it says that upstream is up.
func (h *Health) why(c *Circuit) string {
	switch {
	case h.stateOf(c) == Up:
		return ""
	case !c.down && !c.kept && c.failures < failuresTell:
		return "those of " + c.lastSick.String() + ", and others do not: " + c.lastReason
	}
	return c.lastReason
}
