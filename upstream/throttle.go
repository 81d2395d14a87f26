package upstream

import (
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/upstream/limit"
)

// answerKept bounds, in bytes, the upstream answer that is repeated to reads of a throttled namespace.
// A longer answer is left out.
const answerKept = 4 << 10

// longestThrottle bounds the wait that upstream can ask of reads. A longer wait is about a daily quota,
// which limits only writes.
const longestThrottle = time.Hour

// longThrottle is the shortest wait of reads that the status shows: the copies that answer meanwhile get old.
const longThrottle = time.Minute

// throttles holds the namespaces whose reads wait because upstream said so. Its methods may be called
// concurrently.
type throttles struct {
	initial, longest time.Duration // bounds of the wait if upstream names none

	mu          sync.Mutex // guards byNamespace
	byNamespace map[string]*throttle
}

// throttle is one namespace's wait. When the wait is over, one read at a time tests whether upstream
// accepts the namespace's reads again.
type throttle struct {
	since   time.Time // when the reads began to wait
	until   time.Time
	trial   bool   // a read that tests this is in flight
	said    *Error // upstream's answer
	backoff *backoff.ExponentialBackOff
}

// waits reports whether no further read may be made now.
func (t *throttle) waits() bool { return t.trial || time.Now().Before(t.until) }

// refuses returns why a read of the namespace may not be made now; nil if the read may be made.
func (ts *throttles) refuses(namespace string) *Error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byNamespace[namespace]; t != nil && t.waits() {
		return t.refusal()
	}
	return nil
}

// begin returns why a read of the namespace may not be made; nil for a read that the caller now makes.
// trial means that the read tests whether upstream accepts the namespace's reads again. Unless begin
// returns a refusal, the caller must call end when the read has ended.
func (ts *throttles) begin(namespace string) (refusal *Error, trial bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byNamespace[namespace]
	switch {
	case t == nil:
		return nil, false
	case t.waits():
		return t.refusal(), false
	}
	t.trial = true // guard 15.14
	return nil, true
}

// end records how a read ended. Only upstream's answer to a trial ends the wait: other reads in flight
// were sent before the namespace was throttled.
func (ts *throttles) end(namespace string, trial bool, failed *Error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byNamespace[namespace]
	switch {
	case failed != nil && failed.Verdict == Throttled:
		ts.throttled(namespace, t, trial, failed)
	case trial && failed.Says():
		delete(ts.byNamespace, namespace)
	case trial:
		t.trial = false
	}
}

// throttled makes a namespace wait as long as upstream asked, or else by a backoff. If an earlier
// answer asked for a longer wait, the longer wait stands. The caller holds mu.
func (ts *throttles) throttled(namespace string, t *throttle, trial bool, failed *Error) {
	first := t == nil
	if first {
		t = &throttle{since: time.Now(), backoff: NewBackoff(ts.initial, ts.longest)}
		limit.Remember(ts.byNamespace, namespace, t)
	}
	t.trial = t.trial && !trial
	wait := min(failed.RetryAfter, longestThrottle)
	if wait == 0 && (first || trial) { // of several reads in flight, only one raises the backoff
		wait = t.backoff.NextBackOff()
	}
	if until := time.Now().Add(wait); until.After(t.until) {
		t.until = until // guard 15.13
	}
	said := *failed
	if len(said.Answer) > answerKept {
		said.Answer = nil
	}
	t.said = &said
}

// long returns, by namespace, why its reads wait for longThrottle or longer, for people.
func (ts *throttles) long() map[string]string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	out := make(map[string]string)
	for namespace, t := range ts.byNamespace {
		if t.waits() && t.until.Sub(t.since) >= longThrottle { // guard 15.24
			out[namespace] = fmt.Sprintf("%s, until %s", t.said.Reason, t.until.UTC().Format("15:04 UTC"))
		}
	}
	return out
}

// refusal returns upstream's answer with the remaining wait.
func (t *throttle) refusal() *Error {
	again := *t.said
	again.RetryAfter = max(0, time.Until(t.until))
	return &again
}
