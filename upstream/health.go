package upstream

import (
	"cmp"
	"iter"
	"log/slog"
	"maps"
	"time"

	"github.com/botwired/botwired/internal/loggingmutex"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
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
	// Sick has the namespaces of the entries that fail while all others succeed, with the time since when they do;
	// nil if that is not why. Nobody may change it.
	Sick map[string]time.Time
	// LastSuccess is when upstream last gave a sensible answer; zero if it has not yet.
	LastSuccess time.Time
}

// HealthOptions configures a health.
type HealthOptions struct {
	// BackoffInitial and BackoffMax bound the wait between probes.
	BackoffInitial, BackoffMax time.Duration
	// OnState, if not nil, is called on every change of the state or of Sick, with the health's lock held: it must
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
	sick          map[string]time.Time // as in Report; replaced, never changed
	worst         State                // the worst state logged since upstream was last up
	since         time.Time            // when upstream last came up, or when the requests began to fail
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
	return Report{State: h.state, Since: h.since, Reason: h.reason(), Sick: h.sick, LastSuccess: h.lastSuccess}
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
	state, sick := h.judge()
	was := h.state
	if state == was && maps.Equal(sick, h.sick) { // guard 9.97
		return
	}
	if was == Up {
		h.since = h.failingSince()
	}
	h.state, h.sick = state, sick
	switch {
	case state == was:
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

// judge computes the state, and the sick namespaces if only sick entries fail.
func (h *Health) judge() (state State, sick map[string]time.Time) {
	reads, writes := h.stateOf(&h.reads), h.stateOf(&h.writes)
	switch {
	case reads == Down && !h.writes.wellSince(h.reads.since), writes == Down && !h.reads.wellSince(h.writes.since):
		return Down, nil
	case reads != Up || writes != Up:
		return Degraded, nil
	}
	for _, c := range []*Circuit{&h.reads, &h.writes} {
		for id, s := range c.sickEntries() {
			if sick == nil {
				sick = make(map[string]time.Time)
			}
			if since, ok := sick[id.Namespace]; !ok || s.since.Before(since) {
				sick[id.Namespace] = s.since
			}
		}
	}
	if sick != nil {
		return Degraded, sick
	}
	return Up, nil
}

// stateOf returns the state by the failures of a circuit that are no sick entry's. It ignores those that were not
// repeated for a long time if the other kind of request succeeds.
func (h *Health) stateOf(c *Circuit) State {
	repeated := time.Since(c.lastFailure) < c.sickFor || !h.other(c).wellSince(c.lastFailure)
	switch {
	case repeated && (c.down || c.foreign && c.failures >= failuresTell): // guard 16.17
		return Down
	case repeated && (c.kept || c.failures >= failuresTell):
		return Degraded
	}
	return Up
}

// sickEntries returns the entries that fail although others succeed.
func (c *Circuit) sickEntries() iter.Seq2[journal.ID, sickness] {
	return func(yield func(journal.ID, sickness) bool) {
		now := time.Now()
		for id, s := range c.sick {
			if c.isSick(s, now) && !yield(id, s) {
				return
			}
		}
	}
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

// why returns the reason of a circuit's last failure; empty if nothing of it fails.
func (h *Health) why(c *Circuit) string {
	if h.stateOf(c) != Up {
		return c.lastReason
	}
	var newest journal.ID
	var at time.Time
	n := 0
	for id, s := range c.sickEntries() {
		if n++; s.at.After(at) {
			newest, at = id, s.at
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "those of " + newest.String() + ", and others do not: " + c.lastReason
	}
	return "those of " + words.Count(n, "entry") + " such as " + newest.String() + ", and others do not: " + c.lastReason
}
