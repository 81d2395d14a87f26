package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/botwired/botwired/internal/trace"
)

// The parts of a traceparent, "00-<trace-id>-<parent-id>-<flags>", that a decision needs.
const (
	idHalf  = len("00-0123456789abcdef") // where the half of the trace ID begins that the ratio goes by
	idEnds  = idHalf + 16
	flagsAt = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-")
)

// everyID is above all numbers that a trace ID gives for a ratio.
const everyID = 1 << 63

// sampler decides which requests have spans, as OTEL_TRACES_SAMPLER says. It decides before
// anything of a span exists: a request without one costs next to nothing.
type sampler struct {
	parents bool   // a caller that has decided is followed
	bound   uint64 // a trace is sampled if its number is below; the numbers are below everyID
}

// newSampler goes by the environment. As OpenTelemetry's SDK does, it follows callers and samples
// all others where the environment says nothing that it knows.
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

// samples decides about a request of a caller.
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

// newUnsampled returns the span of a request that nobody hears of.
func newUnsampled(caller trace.Context) trace.Span {
	if caller.Given() {
		return unsampled{caller}
	}
	return unsampledRoot{}
}

// unsampled is such a span in a caller's trace.
type unsampled struct{ caller trace.Context }

// Context implements [trace.Span]. Its flags keep upstream from making a span.
func (s unsampled) Context() trace.Context {
	c := s.caller
	return trace.Context{Parent: c.Parent[:flagsAt] + "00" + c.Parent[flagsAt+2:], State: c.State}
}

// End implements [trace.Span].
func (unsampled) End(string, bool) {}

// unsampledRoot is such a span in a trace of its own, which begins once somebody asks for its place.
// It takes no memory.
type unsampledRoot struct{}

// Context implements [trace.Span]. Each call returns another place.
func (unsampledRoot) Context() trace.Context {
	var ids [24]byte                                       // the trace's, and the span's
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
