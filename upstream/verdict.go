package upstream

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Verdict is what the outcome of a write request means (contract 15).
type Verdict uint8

// The verdicts.
const (
	// Confirmed: upstream says so itself, with the entry's own name.
	Confirmed Verdict = iota
	// Unwell: upstream, or something that answers in its place, failed. Try again.
	Unwell
	// Unsent: the request cannot have reached upstream. Try again.
	Unsent
	// Unanswered: the request was sent and may yet be carried out.
	Unanswered
	// Limited: too many requests for this namespace.
	Limited
	// Paused: this namespace is not let in; only a person can change that.
	Paused
	// Refused: upstream will never take this write.
	Refused
)

func (v Verdict) String() string {
	return [...]string{"confirmed", "unwell", "unsent", "unanswered", "limited", "paused", "refused"}[v]
}

// Outcome is what became of one write request.
type Outcome struct {
	Verdict    Verdict
	Status     int           // upstream's HTTP status; 0 when there was none
	Reason     string        // for people; never holds a value
	RetryAfter time.Duration // how long upstream asked to wait; 0 when it did not

	unreachable bool // there was not even a connection
}

// classify is the verdict on an answer that is not the one asked for.
func (a *answer) classify() Verdict {
	status := a.status
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if !a.botwires() {
			return Unwell // a gateway's, about who knows what: nothing dies of that
		}
		return Refused
	case http.StatusRequestEntityTooLarge:
		return Refused // a gateway's limit is as final
	case http.StatusTooManyRequests:
		return Limited
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return Unwell
	case http.StatusGatewayTimeout, statusOriginTimeout:
		return Unanswered
	}
	if status >= 400 && status < 500 {
		// 401, 402, 403, a 404 that is not about the entry, and whatever else a
		// gateway may say: not this write's fault, and not to be hammered.
		return Paused
	}
	return Unwell
}

// statusOriginTimeout is what a well-known content network says for 504.
const statusOriginTimeout = 524

// maxRetryAfter bounds what upstream can ask for: a date far off is a mistake, and
// would look like a write that was forgotten.
const maxRetryAfter = time.Hour

// retryAfter reads the header of that name (RFC 9110, section 10.2.3): seconds or a
// date. 0 when there is none that makes sense.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the nearest one
		return min(max(0, time.Duration(min(seconds, int64(maxRetryAfter/time.Second)))*time.Second), maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}
