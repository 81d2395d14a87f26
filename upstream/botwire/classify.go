package botwire

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/upstream"
)

// classify is the verdict on an answer that is not the one asked for.
func (a *answer) classify() upstream.Verdict {
	if a.refusesRequest() { // guard 15.1
		return upstream.Permanent
	}
	switch a.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		// guard 15.2
		return upstream.Transient // somebody on the way: no write becomes a dead letter for it
	// guard 15.8
	case http.StatusTooManyRequests:
		return upstream.Throttled
	case http.StatusInsufficientStorage:
		// guard 15.16
		if a.saysNamespaceFull() { // and not that upstream itself is
			return upstream.Paused
		}
	case http.StatusRequestTimeout, http.StatusTooEarly: // guard 15.10
		return upstream.Transient
	case http.StatusGatewayTimeout, statusOriginTimeout: // guard 14.12
		return upstream.Unanswered
	}
	if a.status >= 400 && a.status < 500 { // guard 15.11
		// 401, 402, 403, a 404 that is not about the entry, and the other refusals of
		// gateways: this write is not at fault, and asking often does not help.
		return upstream.Paused
	}
	return upstream.Transient
}

// statusOriginTimeout is a well-known content network's word for 504.
const statusOriginTimeout = 524

// maxRetryAfter bounds how long upstream can ask to wait. A quota for a day may ask for a day;
// a date farther off is a mistake, and the write would look forgotten.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the header of that name (RFC 9110, section 10.2.3): seconds or a
// date. It is 0 when there is none that makes sense.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // out of range, it is the nearest number
		return min(max(0, time.Duration(min(seconds, int64(maxRetryAfter/time.Second)))*time.Second), maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// maxPassedOn bounds an answer that a caller is given as it is, in bytes.
const maxPassedOn = 64 << 10

// forCallers is the body of an answer that a caller may be given as it is, nil if it may
// not: BotWire's own refusal of the request, or somebody's word in JSON that the caller is
// not let in. A 404 that is not about the entry is never given: a caller would take it for
// the entry's absence (contract 9).
func (a *answer) forCallers() []byte {
	given := a.refusesRequest()
	switch a.status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests: // guard 9.7
		given = a.isObject()
	}
	if given && len(a.body) <= maxPassedOn {
		return a.body
	}
	return nil
}
