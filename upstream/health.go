package upstream

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/botwired/botwired/internal/loggingmutex"
)

// State is upstream's condition, for people and for monitoring.
type State string

// The states.
const (
	// Up: requests succeed. A single failure followed by a success changes nothing.
	Up State = "up"
	// Degraded: some requests keep failing, and others succeed or were not tried.
	Degraded State = "degraded"
	// Down: no request succeeds.
	Down State = "down"
)

// failuresTell is how many failures with no success in between are more than a blip, even if all are
// about one entry. They are an outage unless upstream itself has answered some of them.
const failuresTell = 3

// Report describes upstream's condition at one moment.
type Report struct {
	State State
	// Since is when upstream last came up, or when the first of the requests began that have failed
	// since.
	Since time.Time
	// Reason says why upstream is not up, for people; empty if it is up.
	Reason string
	// Sick is the namespace of the entry that fails while all others succeed; empty if that is not why.
	Sick string
	// LastSuccess is when upstream last gave a sensible answer; zero if it has not yet.
	LastSuccess time.Time
}

// HealthOptions configures a health.
type HealthOptions struct {
	// BackoffInitial and BackoffMax bound the wait between probes.
	BackoffInitial, BackoffMax time.Duration
	// OnState, if not nil, is called on every change of the state, with the health's lock held: it must
	// be quick and must not call the health.
	OnState func(Report)
	// Logger receives one line when the state becomes worse, and one when upstream is up again. It must
	// not be nil.
	Logger *slog.Logger
}

// Health is upstream's condition as all requests show it. Reads and writes have a circuit each, because
// one kind may fail while the other succeeds. The state combines both. Its methods may be called
// concurrently.
type Health struct {
	onState       func(Report)
	mu            loggingmutex.Mutex // guards the fields below, and the circuits' fields
	reads, writes Circuit
	state         State
	worst         State     // the worst state logged since upstream was last up
	since         time.Time // when upstream last came up, or when the requests began to fail
	lastSuccess   time.Time
}

// NewHealth returns the health of an upstream that is up.
func NewHealth(opts HealthOptions) *Health {
	h := &Health{onState: opts.OnState, mu: loggingmutex.Mutex{Logger: opts.Logger}, state: Up, worst: Up, since: time.Now()}
	h.reads.init(h, opts.BackoffInitial, opts.BackoffMax)
	h.writes.init(h, opts.BackoffInitial, opts.BackoffMax)
	return h
}

// Writes returns the circuit of the write requests.
func (h *Health) Writes() *Circuit { return &h.writes }

// Report returns upstream's condition.
func (h *Health) Report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.update() // forgets a sick entry that has not failed lately
	return h.report()
}

// report returns the stored state. The caller holds mu.
func (h *Health) report() Report {
	return Report{State: h.state, Since: h.since, Reason: h.reason(), Sick: h.sick(), LastSuccess: h.lastSuccess}
}

// succeeded records a success of one circuit, and its effect on the other. A successful write lets
// reads go again at once: the pause before their next probe was meant for a service that is down, and a
// caller who has just flushed expects an answer. A successful read does not do that for writes, but
// lets them probe at once. If both were failing, the first success ends the outage until there are new
// failures. The caller holds mu.
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

// update computes the state, and logs it if it is the worst since Up, or Up again. The caller holds mu.
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
		level := slog.LevelInfo
		if state == Down {
			level = slog.LevelWarn
		}
		h.mu.Log(level, logged[state], "reason", h.reason())
	}
	if h.onState != nil {
		h.onState(h.report())
	}
}

// logged has the log message for each state.
var logged = map[State]string{
	Degraded: "upstream is degraded: some requests fail and are tried again",
	Down:     "upstream is down: reads are answered with what is known here, and writes wait in the journal",
}

// judge computes the state.
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

// sick returns the namespace of the last sick entry if only sick entries fail.
func (h *Health) sick() string {
	if h.ofAll(&h.reads) != Up || h.ofAll(&h.writes) != Up {
		return ""
	}
	for _, c := range []*Circuit{&h.reads, &h.writes} {
		if c.sickAgain() {
			return c.lastSick.Namespace
		}
	}
	return ""
}

// stateOf returns the state by one circuit's failures.
func (h *Health) stateOf(c *Circuit) State {
	if state := h.ofAll(c); state != Up || !c.sickAgain() {
		return state
	}
	return Degraded
}

// ofAll returns the state by the failures of a circuit that are no sick entry's. It ignores those that were not
// repeated for a long time if the other kind of request succeeds.
func (h *Health) ofAll(c *Circuit) State {
	repeated := time.Since(c.lastFailure) < c.sickFor || !h.other(c).wellSince(c.lastFailure)
	switch {
	case repeated && (c.down || c.foreign && c.failures >= failuresTell): // guard 16.17
		return Down
	case repeated && (c.kept || c.failures >= failuresTell):
		return Degraded
	}
	return Up
}

// sickAgain reports whether a sick entry has failed again within sickFor.
func (c *Circuit) sickAgain() bool {
	s, ok := c.sick[c.lastSick]
	return ok && s.again && time.Since(s.at) < c.sickFor
}

// wellSince reports whether a request has succeeded after t, and none has failed since.
func (c *Circuit) wellSince(t time.Time) bool { return !c.failing && c.lastSuccess.After(t) }

// failingSince returns when the earliest of the circuits that are failing began to fail.
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

// why returns the reason of a circuit's last failure; empty if the circuit's state is Up.
func (h *Health) why(c *Circuit) string {
	switch {
	case h.stateOf(c) == Up:
		return ""
	case !c.down && !c.kept && c.failures < failuresTell:
		return "those of " + c.lastSick.String() + ", and others do not: " + c.lastReason
	}
	return c.lastReason
}
