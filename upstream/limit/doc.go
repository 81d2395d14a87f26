// Package limit bounds the requests under way upstream: [Slots] shares them out between reads and
// writes, and a window holds as many as upstream takes. It knows nothing of the requests themselves.
//
// It is our own, as failsafe-go's adaptive limiter goes by round trips, and knows neither failures nor
// lanes.
package limit
