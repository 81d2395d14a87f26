package botwire

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/upstream"
)

// classify returns the verdict on an answer that is not the expected one.
func (a *answer) classify() upstream.Verdict {
	if a.refusesRequest() { // guard 15.1
		return upstream.Permanent
	}
	switch a.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		// guard 15.2
		return upstream.Transient // from something in between: no write becomes a dead letter because of it
	// guard 15.8
	case http.StatusTooManyRequests:
		return upstream.Throttled
	case http.StatusInsufficientStorage:
		// guard 15.16
		if a.saysNamespaceFull() { // rather than upstream itself
			return upstream.Paused
		}
	case http.StatusRequestTimeout, http.StatusTooEarly: // guard 15.10
		return upstream.Transient
	case http.StatusGatewayTimeout, statusOriginTimeout: // guard 14.12
		return upstream.Unanswered
	}
	if a.status >= 400 && a.status < 500 { // guard 15.11
		// 401, 402, 403, a 404 that is not about the entry, and other refusals of gateways: this write
		// is not at fault, and asking often does not help.
		return upstream.Paused
	}
	return upstream.Transient
}

// statusOriginTimeout is what a well-known content network answers instead of 504.
const statusOriginTimeout = 524

// maxRetryAfter bounds how long upstream can ask to wait. A daily quota may ask for a day; a date
// farther away is a mistake, and the write would look forgotten.
const maxRetryAfter = 24 * time.Hour

// retryAfter parses the Retry-After header (RFC 9110, section 10.2.3): seconds or a date, by the clock that has
// made the answer's Date. It returns 0 if the header is missing or makes no sense.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // ParseInt returns the nearest number if it is out of range
		return min(max(0, time.Duration(min(seconds, int64(maxRetryAfter/time.Second)))*time.Second), maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		now := dateOf(h) // guard 15.18
		if now.IsZero() {
			now = time.Now()
		}
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// maxPassedOn bounds an answer that is passed on to a caller, in bytes.
const maxPassedOn = 64 << 10

// forCallers returns the body of an answer that may be passed on to a caller; otherwise nil. A caller
// may get BotWire's own refusal of the request, and a JSON object from anyone with status 401, 402, 403
// or 429. A 404 that is not about the entry is never passed on: a caller would think that the entry is
// absent (contract 9).
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
