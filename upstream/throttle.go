package upstream

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// answerKept bounds, in bytes, the answer of upstream that is repeated to the reads of a throttled
// namespace. A longer answer is left out.
const answerKept = 4 << 10

// longestThrottle bounds the wait that upstream can ask of reads. A longer one is about a daily quota,
// which limits writes only.
const longestThrottle = time.Hour

// throttles are the namespaces whose reads wait because upstream said so. Its methods may
// be called concurrently.
type throttles struct {
	initial, longest time.Duration // bounds of the wait where upstream names none

	mu          sync.Mutex // guards byNamespace
	byNamespace map[string]*throttle
}

// throttle is one namespace's wait. When it is over, one read at a time finds out whether
// the namespace is let in again.
type throttle struct {
	until   time.Time
	trial   bool   // that read is under way
	said    *Error // upstream's answer
	backoff *backoff.ExponentialBackOff
}

// refuses returns why a read of the namespace may not be made now; nil if it may.
func (ts *throttles) refuses(namespace string) *Error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byNamespace[namespace]; t != nil && (t.trial || time.Now().Before(t.until)) {
		return t.refusal()
	}
	return nil
}

// begin does the same as refuses for a read that its caller makes at once if it may. trial says that
// this read finds out whether the namespace is let in again. The caller must call end when a read that
// it makes has ended.
func (ts *throttles) begin(namespace string) (refusal *Error, trial bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byNamespace[namespace]
	switch {
	case t == nil:
		return nil, false
	case t.trial, time.Now().Before(t.until):
		return t.refusal(), false
	}
	t.trial = true // guard 15.14
	return nil, true
}

// end notes how a read has ended. Only upstream's answer to a trial ends the wait: the reads that were
// under way when the namespace was throttled left before upstream said so.
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

// throttled makes a namespace wait for as long as upstream asked, or else by a backoff. If
// an earlier answer asked for a longer wait, the longer wait stands. The caller holds mu.
func (ts *throttles) throttled(namespace string, t *throttle, trial bool, failed *Error) {
	first := t == nil
	if first {
		t = &throttle{backoff: NewBackoff(ts.initial, ts.longest)}
		Remember(ts.byNamespace, namespace, t)
	}
	t.trial = t.trial && !trial
	wait := min(failed.RetryAfter, longestThrottle)
	if wait == 0 && (first || trial) { // of those under way, only one raises the backoff
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

// refusal returns upstream's answer with the rest of the wait.
func (t *throttle) refusal() *Error {
	again := *t.said
	again.RetryAfter = max(0, time.Until(t.until))
	return &again
}
