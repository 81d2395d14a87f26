// Package limit bounds the requests in flight: [Slots] divides them between reads and writes, and a
// window adapts their number to what upstream can take. It knows nothing of the requests themselves.
//
// It is our own, because failsafe-go's adaptive limiter goes by round trips, and knows neither failures
// nor lanes.
package limit
