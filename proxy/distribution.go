package proxy

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// show returns what a counter or a histogram has counted.
func show(m prometheus.Metric) *dto.Metric {
	shown := &dto.Metric{}
	_ = m.Write(shown) // fails for no counter and for no histogram
	return shown
}

// distribution counts requests by how long they took: what histograms of [LatencyOpts] have in
// their classic buckets, added up.
type distribution struct {
	within [len(latencyBounds)]uint64 // took no longer than that bound
	total  uint64
}

// add adds a histogram.
func (d *distribution) add(histogram prometheus.Metric) {
	h := show(histogram).GetHistogram()
	d.total += h.GetSampleCount()
	for i, bucket := range h.GetBucket() {
		d.within[i] += bucket.GetCumulativeCount()
	}
}

// plus returns the requests of two distributions.
func (d distribution) plus(other distribution) distribution {
	for i, n := range other.within {
		d.within[i] += n
	}
	d.total += other.total
	return d
}

// since returns the requests that have come after an earlier state. A native histogram counts
// anew once it has too many buckets: what it has now came later.
func (d distribution) since(past distribution) distribution {
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

// quantile estimates one, in seconds, as Prometheus does: evenly within a bucket. Of what took
// longer than the last bound, it knows no more than that. It is false if nothing was measured.
func (d *distribution) quantile(q float64) (seconds float64, ok bool) {
	if d.total == 0 {
		return 0, false
	}
	rank := q * float64(d.total)
	i := slices.IndexFunc(d.within[:], func(n uint64) bool { return float64(n) >= rank })
	if i < 0 {
		return latencyBounds[len(latencyBounds)-1], true
	}
	from, below := 0.0, uint64(0)
	if i > 0 {
		from, below = latencyBounds[i-1], d.within[i-1]
	}
	within := d.within[i] - below
	if within == 0 {
		return from, true
	}
	return from + (latencyBounds[i]-from)*(rank-float64(below))/float64(within), true
}

// trips are the requests since the start, by how long they took.
type trips struct {
	localReads, localWrites       distribution // for which nobody waited for upstream
	upstreamReads, upstreamWrites distribution // that upstream has carried out
}

func (t *trips) local() distribution    { return t.localReads.plus(t.localWrites) }
func (t *trips) upstream() distribution { return t.upstreamReads.plus(t.upstreamWrites) }

// confirmed is the outcome of a request that upstream has carried out.
const confirmed = "confirmed"

// readTrips reads the histograms.
func readTrips(here *latencies, upstream *prometheus.HistogramVec) (t trips) {
	for v := GetEntry; v < Verbs; v++ {
		local, there := &t.localReads, &t.upstreamReads
		first, end := Outcome(0), Outcome(FromUpstream)
		if v == PutEntry || v == DeleteEntry {
			local, there = &t.localWrites, &t.upstreamWrites
			first, end = WasAcknowledged, WasAcknowledged+1
		}
		*local = local.plus(here.measured(v, first, end))
		there.add(upstream.WithLabelValues(v.String(), confirmed).(prometheus.Metric))
	}
	return t
}
