package proxy

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// buckets are the classic buckets of histograms, added up: how many requests took no longer than
// each bound, in seconds, and how many there were.
type buckets struct {
	bounds []float64
	counts []uint64 // cumulative
	total  uint64
}

// since is what has come after an earlier state.
func (b *buckets) since(past *buckets) buckets {
	if len(past.bounds) != len(b.bounds) {
		return *b
	}
	out := buckets{bounds: b.bounds, counts: slices.Clone(b.counts), total: b.total - past.total}
	for i := range out.counts {
		out.counts[i] -= past.counts[i]
	}
	return out
}

// quantile estimates one, in seconds, as Prometheus does: evenly within a bucket. Of what took
// longer than the last bound, it knows no more than that. It is false if nothing was measured.
func (b *buckets) quantile(q float64) (seconds float64, ok bool) {
	if b.total == 0 || len(b.bounds) == 0 {
		return 0, false
	}
	rank := q * float64(b.total)
	i, _ := slices.BinarySearchFunc(b.counts, rank, func(n uint64, rank float64) int {
		if float64(n) < rank {
			return -1
		}
		return 1
	})
	if i == len(b.counts) {
		return b.bounds[len(b.bounds)-1], true
	}
	from, below := 0.0, uint64(0)
	if i > 0 {
		from, below = b.bounds[i-1], b.counts[i-1]
	}
	within := b.counts[i] - below
	if within == 0 {
		return from, true
	}
	return from + (b.bounds[i]-from)*(rank-float64(below))/float64(within), true
}

// measured is what a scrape shows of the latencies and of what is pending.
type measured struct {
	localReads, localWrites       buckets // that nobody waited upstream for
	upstreamReads, upstreamWrites buckets // that upstream has carried out
	pending                       float64
	oldestPending                 float64
}

func (m *measured) local() *buckets    { return sum(&m.localReads, &m.localWrites) }
func (m *measured) upstream() *buckets { return sum(&m.upstreamReads, &m.upstreamWrites) }

func sum(a, b *buckets) *buckets {
	switch {
	case len(a.bounds) == 0:
		return b
	case len(b.bounds) != len(a.bounds):
		return a
	}
	out := &buckets{bounds: a.bounds, counts: slices.Clone(a.counts), total: a.total + b.total}
	for i, n := range b.counts {
		out.counts[i] += n
	}
	return out
}

// confirmed is the outcome of a request that upstream has carried out.
const confirmed = "confirmed"

// gather measures what the metrics show.
func gather(from prometheus.Gatherer) (m measured, err error) {
	families, err := from.Gather()
	if err != nil {
		return m, fmt.Errorf("history: %w", err)
	}
	for _, family := range families {
		name := family.GetName()
		for _, metric := range family.GetMetric() {
			operation, outcome := labelled(metric.GetLabel(), "operation")
			switch name {
			case "botwired_pending":
				m.pending = metric.GetGauge().GetValue()
			case "botwired_oldest_pending_seconds":
				m.oldestPending = metric.GetGauge().GetValue()
			}
			into := m.bucketsOf(name, operation, outcome)
			if into == nil {
				continue
			}
			histogram := metric.GetHistogram()
			added := buckets{total: histogram.GetSampleCount()}
			for _, bucket := range histogram.GetBucket() {
				added.bounds = append(added.bounds, bucket.GetUpperBound())
				added.counts = append(added.counts, bucket.GetCumulativeCount())
			}
			*into = *sum(into, &added)
		}
	}
	return m, nil
}

// bucketsOf says where a histogram of that name and those labels counts; nil if nowhere.
func (m *measured) bucketsOf(name, operation, outcome string) *buckets {
	writes := operation == "put" || operation == "delete"
	switch name {
	case "botwired_request_seconds":
		from, read := sourceLabelled(outcome)
		switch {
		case writes && outcome == "acknowledged":
			return &m.localWrites
		case !writes && read && from < fromUpstream:
			return &m.localReads
		}
	case "botwired_upstream_request_seconds":
		switch {
		case outcome != confirmed:
		case writes:
			return &m.upstreamWrites
		default:
			return &m.upstreamReads
		}
	}
	return nil
}
