package botwire

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/upstream"
)

// fate says how far a request got on its way.
type fate uint8

const (
	neverSent fate = iota // no connection has taken a byte of it, or upstream had closed the connection before
	mayLand               // a connection has, and no whole answer came: upstream may carry it out, now or later
	answered              // a whole answer came, of upstream's or of something in its place
)

// Statuses that a well-known content network answers with, about the server behind it.
const (
	statusUnknownAnswer  = 520 // the connection was cut, or what came was no answer
	statusConnectTimeout = 522 // no connection, or one on which nothing is acknowledged any more
	statusOriginTimeout  = 524 // in place of 504
)

// Some gateways say 503 where they mean 502 or 504: those that answer with a page, and Envoy. resetOnTheWay is how Envoy, and what is made of it, begin such an answer.
const resetOnTheWay = "upstream connect error or disconnect/reset before headers"

// meaning says what became of a request that upstream has not confirmed (contract 15). The answer, if there is one,
// is not the expected one.
func meaning(f fate, a *answer) upstream.Verdict {
	switch {
	case f == neverSent:
		return upstream.Unsent
	case f == mayLand: // guard 15.19
		return upstream.Unanswered
	case a.looped && a.status == http.StatusLoopDetected:
		return upstream.Unsent // nothing of the request was done
	case a.looped:
		return upstream.Transient
	case a.status == http.StatusServiceUnavailable && (a.isPage() || bytes.HasPrefix(a.body, []byte(resetOnTheWay))): // guard 14.27
		return upstream.Unanswered
	case a.saysNamespaceFull(): // guard 15.16
		return upstream.Paused
	case a.refusesRequest(): // guard 15.1
		return upstream.Permanent
	}
	switch a.status {
	case http.StatusBadGateway, http.StatusGatewayTimeout, // guard 14.12
		statusUnknownAnswer, statusConnectTimeout, statusOriginTimeout:
		return upstream.Unanswered // the word of something in between that it got no answer
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		// guard 15.2
		return upstream.Transient // from something in between: no write becomes a dead letter because of it
	// guard 15.8
	case http.StatusTooManyRequests:
		return upstream.Throttled
	case http.StatusRequestTimeout, http.StatusTooEarly: // guard 15.10
		return upstream.Transient
	}
	if a.status >= 400 && a.status < 500 { // guard 15.11
		// 401, 402, 403, a 404 that is not about the entry, and other refusals of gateways: this write
		// is not at fault, and asking often does not help.
		return upstream.Paused
	}
	return upstream.Transient
}

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
