package load

import (
	"math"
	"testing"
	"time"
)

func TestPercentilesAreExactForShortTimes(t *testing.T) {
	var h Histogram
	for d := time.Duration(100); d > 0; d-- {
		h.Record(d)
	}
	for p, want := range map[float64]time.Duration{0.1: 1, 1: 1, 1.1: 2, 50: 50, 99: 99, 99.5: 100, 100: 100} {
		if got := h.Percentile(p); got != want {
			t.Errorf("p%v is %d ns, want %d", p, got, want)
		}
	}
}

func TestPercentileOfNothing(t *testing.T) {
	if got := new(Histogram).Percentile(50); got != 0 {
		t.Errorf("%v", got)
	}
}

func TestTimesAreTrueToHalfAPerCent(t *testing.T) {
	for d := time.Duration(1); d < 1<<topBit; d += d/7 + 1 {
		var h Histogram
		h.Record(d)
		got := h.Percentile(50)
		if off := math.Abs(float64(got-d)) / float64(d); off > 0.004 {
			t.Fatalf("%d ns is told as %d ns, %.2f %% off", d, got, 100*off)
		}
	}
}

func TestBucketsFollowEachOther(t *testing.T) {
	last := -1
	for d := time.Duration(0); d < 1<<12; d++ {
		b := bucketOf(d)
		if b != last && b != last+1 {
			t.Fatalf("%d ns is in bucket %d, and 1 ns less in %d", d, b, last)
		}
		last = b
	}
}

func TestTimesOutOfRangeAreKept(t *testing.T) {
	var h Histogram
	h.Record(-time.Second)
	h.Record(math.MaxInt64)
	if h.Percentile(50) != 0 || h.Percentile(100) < 18*time.Minute || h.Count() != 2 {
		t.Errorf("%v, %v, %d", h.Percentile(50), h.Percentile(100), h.Count())
	}
}

func TestHistogramsAddUp(t *testing.T) {
	var a, b Histogram
	a.Record(10)
	b.Record(20)
	b.Record(30)
	a.Add(&b)
	if a.Count() != 3 || a.Percentile(50) != 20 || a.Percentile(100) != 30 {
		t.Errorf("%d: %v, %v", a.Count(), a.Percentile(50), a.Percentile(100))
	}
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	for b.Loop() {
		h.Record(12345)
	}
}
