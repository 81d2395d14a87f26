package metrics

import (
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Distribution counts requests by how long they took.
type Distribution struct {
	within [len(bounds)]uint64 // took no longer than that bound
	total  uint64
}

// Distribution returns the requests that the series has measured. A native histogram begins anew once it has too
// many buckets.
func (s *Series) Distribution() (d Distribution) {
	shown := &dto.Metric{}
	_ = s.histogram.Write(shown) // fails for no histogram
	h := shown.GetHistogram()
	d.total = h.GetSampleCount()
	for i, bucket := range h.GetBucket() {
		d.within[i] = bucket.GetCumulativeCount()
	}
	return d
}

// Plus returns the requests of two distributions.
func (d Distribution) Plus(other Distribution) Distribution {
	for i, n := range other.within {
		d.within[i] += n
	}
	d.total += other.total
	return d
}

// Since returns the requests that have come after an earlier state. If a histogram has begun anew
// meanwhile, all its requests have come after that state.
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

// Quantile estimates a quantile, in seconds, as Prometheus does: evenly within a bucket. Of what took
// longer than the last bound, it knows no more than that. It is false if nothing was measured.
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
