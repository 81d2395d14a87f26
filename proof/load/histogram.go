package load

import (
	"math"
	"math/bits"
	"time"
)

const (
	// subBits says how finely an octave is divided: a recorded time is off by less than
	// 1 in 2^(subBits+1), 0.4 %. Ratios of a few per cent depend on it.
	subBits = 7
	subs    = 1 << subBits
	// topBit bounds the buckets: times of 2^topBit ns (18 minutes) and more count as
	// the longest.
	topBit  = 40
	buckets = (topBit - subBits + 1) * subs
)

// Histogram counts times, log-linearly: exactly below 128 ns, and to 0.4 % from there
// on. The zero value is empty and ready for use. It must not be used concurrently.
type Histogram struct {
	counts [buckets]uint64
	total  uint64
}

// Record counts one time. It does not allocate.
func (h *Histogram) Record(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
}

// Add adds the counts of another histogram.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// Count returns the number of recorded times.
func (h *Histogram) Count() int { return int(h.total) }

// Percentile returns the least time that p per cent of the recorded ones do not exceed,
// to the histogram's precision; 0 if there are none. p is above 0 and at most 100.
func (h *Histogram) Percentile(p float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := max(1, uint64(math.Ceil(p/100*float64(h.total))))
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return middleOf(i)
		}
	}
	return middleOf(buckets - 1)
}

// bucketOf returns the bucket of a time. The first 2·subs buckets are 1 ns wide, the
// next subs 2 ns, the next 4 ns, and so on.
func bucketOf(d time.Duration) int {
	v := uint64(min(max(d, 0), 1<<topBit-1))
	shift := max(0, bits.Len64(v)-subBits-1)
	return shift*subs + int(v>>shift)
}

// middleOf returns the middle of the times in a bucket.
func middleOf(bucket int) time.Duration {
	shift := max(0, bucket/subs-1)
	low := int64(bucket-shift*subs) << shift
	return time.Duration(low + int64(1)<<shift/2)
}
