package metrics

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// bounds are the upper bounds of the classic buckets of all latencies, in seconds. A read from memory takes
// microseconds, and a request upstream up to upstream.timeout.
var bounds = [...]float64{
	5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
	1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// Times measures requests by operation and outcome. It has classic buckets, and a bounded number of native
// ones for a Prometheus that asks for them.
type Times struct {
	histograms *prometheus.HistogramVec
	series     sync.Map // from [2]string, an operation and an outcome, to *Series
}

func newTimes(r registry, name, help string) *Times {
	const growth, most, keptFor = 1.1, 160, time.Hour
	return &Times{histograms: r.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: bounds[:],
		NativeHistogramBucketFactor: growth, NativeHistogramMaxBucketNumber: most, NativeHistogramMinResetDuration: keptFor,
	}, []string{"operation", "outcome"})}
}

// Of returns the series of an operation and an outcome. The first call creates the series: most
// outcomes are rare, and a series has more than twenty lines.
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

// Observe records how long a request took.
func (s *Series) Observe(took time.Duration) {
	s.histogram.Observe(took.Seconds())
	s.count.Add(1)
}

// Count returns the number of requests since the start.
func (s *Series) Count() int64 { return s.count.Load() }

// Distribution counts requests by how long they took.
type Distribution struct {
	within [len(bounds)]uint64 // requests that took no longer than the bound with the same index
	total  uint64
}

// Distribution returns the distribution of the requests that the series has measured. A native histogram
// restarts once it has too many buckets.
func (s *Series) Distribution() (d Distribution) {
	shown := &dto.Metric{}
	_ = s.histogram.Write(shown) // it never fails for a histogram
	h := shown.GetHistogram()
	d.total = h.GetSampleCount()
	for i, bucket := range h.GetBucket() {
		d.within[i] = bucket.GetCumulativeCount()
	}
	return d
}

// Plus returns the sum of two distributions.
func (d Distribution) Plus(other Distribution) Distribution {
	for i, n := range other.within {
		d.within[i] += n
	}
	d.total += other.total
	return d
}

// Since returns the requests measured since past. If the histogram has restarted meanwhile, all its requests
// count.
func (d Distribution) Since(past Distribution) Distribution {
	later := d
	later.total -= past.total
	for i, n := range past.within {
		if d.total < past.total || d.within[i] < n {
			return d
		}
		later.within[i] -= n
	}
	return later
}

// Quantile estimates a quantile, in seconds, as Prometheus does: linearly within a bucket. For requests that
// took longer than the last bound, it returns that bound. ok is false if nothing was measured.
func (d *Distribution) Quantile(q float64) (seconds float64, ok bool) {
	if d.total == 0 {
		return 0, false
	}
	rank := q * float64(d.total)
	i := slices.IndexFunc(d.within[:], func(n uint64) bool { return float64(n) >= rank })
	if i < 0 {
		return bounds[len(bounds)-1], true
	}
	from, below := 0.0, uint64(0)
	if i > 0 {
		from, below = bounds[i-1], d.within[i-1]
	}
	within := d.within[i] - below
	if within == 0 {
		return from, true
	}
	return from + (bounds[i]-from)*(rank-float64(below))/float64(within), true
}
