package telemetry

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/trace"
)

// Decisions follow OpenTelemetry's specification of OTEL_TRACES_SAMPLER.
func TestSampler(t *testing.T) {
	const low, high = "00-4bf92f3577b34da60000000000000001-00f067aa0ba902b7-", "00-4bf92f3577b34da6ffffffffffffffff-00f067aa0ba902b7-"
	for _, row := range []struct {
		name, arg string
		// for callers without a trace, with a sampled low ID, and with an unsampled high ID
		none, low, high bool
	}{
		{"", "", true, true, false},
		{"unknown", "", true, true, false},
		{"always_on", "", true, true, true},
		{"always_off", "", false, false, false},
		{"ALWAYS_OFF ", "", false, false, false},
		{"parentbased_always_on", "", true, true, false},
		{"parentbased_always_off", "", false, true, false},
		{"traceidratio", "", true, true, true},
		{"traceidratio", "1", true, true, true},
		{"traceidratio", "0", false, false, false},
		{"traceidratio", "2", true, true, true},
		{"traceidratio", "1e-9", false, true, false},
		{"parentbased_traceidratio", "1e-9", false, true, false},
		{"parentbased_traceidratio", "none", true, true, false},
	} {
		s := newSampler(func(name string) string {
			return map[string]string{"OTEL_TRACES_SAMPLER": row.name, "OTEL_TRACES_SAMPLER_ARG": row.arg}[name]
		})
		for _, of := range []struct {
			parent string
			want   bool
		}{{"", row.none}, {low + "01", row.low}, {high + "00", row.high}} {
			if got := s.samples(trace.Context{Parent: of.parent}); got != of.want {
				t.Errorf("%s=%s, of %q: %t", row.name, row.arg, of.parent, got)
			}
		}
	}
	half, sampled := sampler{bound: everyID / 2}, 0
	for range 10_000 {
		if half.samples(trace.Context{}) {
			sampled++
		}
	}
	if sampled < 4_000 || sampled > 6_000 {
		t.Errorf("a half is %d of 10,000", sampled)
	}
}

// openTo returns a tracer that exports to the given collector.
func openTo(tb testing.TB, collector string) *Tracer {
	tb.Helper()
	tb.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
	tracer, err := Open(tb.Context(), "1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	return tracer
}

// Upstream learns that an unsampled request is unsampled, in the caller's trace if there is one.
func TestUnsampled(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tracer := openTo(t, "http://127.0.0.1:1")
	defer tracer.Close(0)
	own := tracer.Start("get", "n", trace.Context{}, time.Now())
	own.End("hit", false)
	place := own.Context()
	if trace.Parse(place.Parent, "") != place || !strings.HasSuffix(place.Parent, "-00") {
		t.Errorf("the place of a request without a caller's trace is %+v", place)
	}
	if again := tracer.Start("get", "n", trace.Context{}, time.Now()).Context(); again == place {
		t.Errorf("two requests in one trace: %+v", place)
	}
	caller := trace.Context{Parent: parent, State: "vendor=1"}
	within := tracer.Start("get", "n", caller, time.Now()).Context()
	if within != (trace.Context{Parent: strings.TrimSuffix(parent, "01") + "00", State: "vendor=1"}) {
		t.Errorf("the place of a request in a caller's trace is %+v", within)
	}
	if waited := tracer.StartUpstream("put", "n", caller, true).Context(); !waited.Given() || strings.Contains(waited.Parent, traceID) {
		t.Errorf("the place of a write that has waited is %+v", waited)
	}
}

// A write that goes upstream later has its own trace, and is sampled if its caller is.
func TestWaitedWritesAreSampledAsTheirCaller(t *testing.T) {
	for sampler, caller := range map[string]string{"parentbased_always_off": "01", "parentbased_always_on": "00"} {
		t.Setenv("OTEL_TRACES_SAMPLER", sampler)
		tracer := openTo(t, "http://127.0.0.1:1")
		place := tracer.StartUpstream("put", "n", trace.Context{Parent: strings.TrimSuffix(parent, "01") + caller}, true).Context()
		tracer.Close(0)
		if !strings.HasSuffix(place.Parent, "-"+caller) || strings.Contains(place.Parent, traceID) {
			t.Errorf("%s: of a caller with flags %s, the place is %+v", sampler, caller, place)
		}
	}
}

// An unsampled request allocates nothing for its span.
func TestUnsampledAllocatesNothing(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tracer := openTo(t, "http://127.0.0.1:1")
	defer tracer.Close(0)
	began := time.Now()
	if n := testing.AllocsPerRun(100, func() { tracer.Start("get", "n", trace.Context{}, began).End("hit", false) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSpan(b *testing.B) {
	for _, name := range []string{"always_on", "always_off"} {
		b.Run(name, func(b *testing.B) {
			b.Setenv("OTEL_TRACES_SAMPLER", name)
			tracer := openTo(b, "http://127.0.0.1:1")
			b.ReportAllocs()
			for b.Loop() {
				tracer.Start("get", "namespace", trace.Context{}, time.Now()).End("hit", false)
			}
			b.StopTimer()
			tracer.Close(0)
		})
	}
}
