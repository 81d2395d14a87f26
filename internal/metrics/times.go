package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// bounds are the upper bounds of the classic buckets of all latencies, in seconds: a read from memory takes
// microseconds, and upstream up to upstream.timeout.
var bounds = [...]float64{
	5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
	1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// Times measures requests by operation and outcome. It has classic buckets, and native ones for a Prometheus that
// asks for them. The native ones are bounded too.
type Times struct {
	histograms *prometheus.HistogramVec
	series     sync.Map // of [2]string, an operation and an outcome, to *Series
}

func newTimes(name, help string) *Times {
	const growth, most, keptFor = 1.1, 160, time.Hour
	return &Times{histograms: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: bounds[:],
		NativeHistogramBucketFactor: growth, NativeHistogramMaxBucketNumber: most, NativeHistogramMinResetDuration: keptFor,
	}, []string{"operation", "outcome"})}
}

// Of returns the series of an operation and an outcome. It is made at the first call: most outcomes are rare, and a
// series has more than twenty lines.
func (t *Times) Of(operation, outcome string) *Series {
	key := [2]string{operation, outcome}
	s, ok := t.series.Load(key)
	if !ok {
		s, _ = t.series.LoadOrStore(key, &Series{histogram: t.histograms.WithLabelValues(operation, outcome).(prometheus.Histogram)})
	}
	return s.(*Series)
}

// Series measures the requests of one operation and one outcome.
type Series struct {
	histogram prometheus.Histogram
	count     atomic.Int64
}

// Observe notes how long a request took.
func (s *Series) Observe(took time.Duration) {
	s.histogram.Observe(took.Seconds())
	s.count.Add(1)
}

// Count returns how many requests there were since the start.
func (s *Series) Count() int64 { return s.count.Load() }
