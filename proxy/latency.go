package proxy

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// latencyBounds are the upper bounds of the classic buckets of all latencies, in seconds: a
// read from memory takes microseconds, and upstream up to upstream.timeout.
var latencyBounds = [...]float64{
	5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
	1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// LatencyOpts are the options of a histogram of latencies: classic buckets, and native ones
// for a Prometheus that asks for them. The native ones are bounded too.
func LatencyOpts(name, help string) prometheus.HistogramOpts {
	const growth, most, keptFor = 1.1, 160, time.Hour
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: latencyBounds[:],
		NativeHistogramBucketFactor: growth, NativeHistogramMaxBucketNumber: most, NativeHistogramMinResetDuration: keptFor,
	}
}

// latencies measures requests by operation and outcome.
type latencies struct {
	histograms *prometheus.HistogramVec
	// series are those of histograms. A series is made when its first request has been answered:
	// most outcomes are rare, and a series has more than twenty lines.
	series [Verbs][Outcomes]atomic.Pointer[prometheus.Observer]
}

func newLatencies() *latencies {
	return &latencies{histograms: prometheus.NewHistogramVec(
		LatencyOpts("botwired_request_seconds", "How long agents waited for the answers of the memory API, by operation and outcome."),
		[]string{"operation", "outcome"})}
}

// measured returns how long the requests of a verb took that had one of the outcomes from first to end,
// without end.
func (l *latencies) measured(v Verb, first, end Outcome) (d distribution) {
	for o := first; o < end; o++ {
		if observer := l.series[v][o].Load(); observer != nil {
			d.add((*observer).(prometheus.Metric))
		}
	}
	return d
}

// observe notes how long a call took. A call without a verb is none of the memory API's.
func (l *latencies) observe(v Verb, o Outcome, took time.Duration) {
	if v == NoVerb {
		return
	}
	series := &l.series[v][o]
	observer := series.Load()
	if observer == nil {
		made := l.histograms.WithLabelValues(v.String(), o.String())
		observer = &made
		series.Store(observer)
	}
	(*observer).Observe(took.Seconds())
}
