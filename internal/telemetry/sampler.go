package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/botwired/botwired/internal/trace"
)

// The offsets in a traceparent, "00-<trace-id>-<parent-id>-<flags>", that a decision needs.
const (
	idHalf  = len("00-0123456789abcdef") // start of the half of the trace ID that the ratio uses
	idEnds  = idHalf + 16
	flagsAt = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-")
)

// everyID is greater than any number derived from a trace ID.
const everyID = 1 << 63

// sampler decides which requests have spans, according to OTEL_TRACES_SAMPLER. It decides before a span
// is created: a request without one costs almost nothing.
type sampler struct {
	parents bool   // follow a caller's decision
	bound   uint64 // a trace is sampled if its number is below bound; numbers are below everyID
}

// newSampler reads the environment. Like OpenTelemetry's SDK, for an unknown or unset sampler it
// follows the caller and samples all other requests.
func newSampler(getenv func(string) string) sampler {
	name, follows := strings.CutPrefix(strings.ToLower(strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER"))), "parentbased_")
	switch name {
	case "always_on":
		return sampler{follows, everyID}
	case "always_off":
		return sampler{follows, 0}
	case "traceidratio":
		ratio, err := strconv.ParseFloat(strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER_ARG")), 64)
		if err == nil && ratio >= 0 && ratio <= 1 {
			return sampler{follows, uint64(ratio * everyID)}
		}
		return sampler{follows, everyID}
	}
	return sampler{true, everyID}
}

// samples reports whether a caller's request is sampled.
func (s sampler) samples(caller trace.Context) bool {
	switch {
	case !caller.Given():
		return rand.Uint64()>>1 < s.bound
	case s.parents:
		flags, err := strconv.ParseUint(caller.Parent[flagsAt:flagsAt+2], 16, 8)
		return err == nil && flags&1 != 0
	}
	id, err := strconv.ParseUint(caller.Parent[idHalf:idEnds], 16, 64)
	return err == nil && id>>1 < s.bound
}

// newUnsampled returns the span of a request that is not sampled.
func newUnsampled(caller trace.Context) trace.Span {
	if caller.Given() {
		return unsampled{caller}
	}
	return unsampledRoot{}
}

// unsampled is an unsampled span in a caller's trace.
type unsampled struct{ caller trace.Context }

// Context implements [trace.Span]. Its flags tell upstream not to sample.
func (s unsampled) Context() trace.Context {
	c := s.caller
	return trace.Context{Parent: c.Parent[:flagsAt] + "00" + c.Parent[flagsAt+2:], State: c.State}
}

// End implements [trace.Span].
func (unsampled) End(string, bool) {}

// unsampledRoot is an unsampled span in a trace of its own, whose IDs are drawn when Context is called.
// It takes no memory.
type unsampledRoot struct{}

// Context implements [trace.Span]. Each call returns another trace.
func (unsampledRoot) Context() trace.Context {
	var ids [24]byte                                       // of the trace and of the span
	binary.NativeEndian.PutUint64(ids[:], rand.Uint64()|1) // neither may be zero
	binary.NativeEndian.PutUint64(ids[8:], rand.Uint64())
	binary.NativeEndian.PutUint64(ids[16:], rand.Uint64()|1)
	var text [flagsAt + len("00")]byte
	place := append(hex.AppendEncode(append(text[:0], "00-"...), ids[:16]), '-')
	place = append(hex.AppendEncode(place, ids[16:]), "-00"...)
	return trace.Context{Parent: string(place)}
}

// End implements [trace.Span].
func (unsampledRoot) End(string, bool) {}
