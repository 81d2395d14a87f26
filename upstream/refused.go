package upstream

import (
	"errors"
	"net/http"
	"time"
)

const (
	// maxPassedOn bounds an answer that a caller is given as it is, in bytes.
	maxPassedOn = 64 << 10
	// refusedFor is how long the status tells of a refused read that nobody has tried
	// again: what has become of it is not known any more.
	refusedFor = 10 * time.Minute
)

// Denied is upstream's answer to a read that it does not let in. It is not down.
type Denied struct {
	wait   time.Duration
	reason string
	status int
	body   []byte
}

func (d *Denied) Error() string { return "upstream refuses: " + d.reason }

// RetryAfter is how long upstream asked to wait; 0 when it did not.
func (d *Denied) RetryAfter() time.Duration { return d.wait }

// Answer is what upstream answered, for the caller.
func (d *Denied) Answer() (status int, body []byte) { return d.status, d.body }

// forCallers is the body of an answer that a caller may be given as it is, nil if it may
// not: it speaks of the request, and in JSON as BotWire does. A 404 that is not about the
// entry is none, as it would be taken for the entry's absence (contract 9).
func (a *answer) forCallers() []byte {
	switch a.status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests:
		if a.ofService() && len(a.body) > 0 && len(a.body) <= maxPassedOn {
			return a.body
		}
	}
	return nil
}

// denial is a failure in which upstream has spoken to the caller, nil for any other.
func denial(err error) *Denied {
	var failed *RequestError
	if !errors.As(err, &failed) || failed.body == nil {
		return nil
	}
	return &Denied{wait: failed.retryAfter, reason: failed.reason, status: failed.status, body: failed.body}
}

// refusal is a read that was refused.
type refusal struct {
	at     time.Time
	reason string
}

// refused notes that a namespace is not let in, and with nil that it is.
func (r *Reader) refused(namespace string, failed *RequestError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case failed == nil:
		delete(r.refusals, namespace)
	case failed.verdict == Paused:
		remember(r.refusals, namespace, refusal{time.Now(), failed.reason})
	}
}

// Refused says, by namespace, why upstream did not answer the last read though it is
// there (contract 15).
func (r *Reader) Refused() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]string, len(r.refusals))
	for namespace, last := range r.refusals {
		if time.Since(last.at) > refusedFor {
			delete(r.refusals, namespace)
			continue
		}
		out[namespace] = last.reason
	}
	return out
}
