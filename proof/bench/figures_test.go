package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{3, 100, 2}, 3},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(test.values); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.want)
		}
	}
}

func TestMedianOfTakesEachFigureByItself(t *testing.T) {
	got := medianOf([]figures{{100, 3, 50, 500, 12, 7}, {300, 1, 70, 700, 10, 9}, {200, 2, 60, 600, 11, 8}})
	if diff := cmp.Diff(figures{200, 2, 60, 600, 11, 8}, got); diff != "" {
		t.Error(diff)
	}
}

// The ratio is the one within a round: a round in which the machine was slow for both
// has the same ratio as any other.
func TestRatioIsTakenWithinRounds(t *testing.T) {
	r := &report{Cells: []*cell{
		{Workload: "w", Connections: 1, Contender: botwired, Rounds: []figures{
			{PerSecond: 90, P50: 20, P99: 50}, {PerSecond: 9, P50: 200, P99: 500}, {PerSecond: 80, P50: 30, P99: 60},
		}},
		{Workload: "w", Connections: 1, Contender: redis, Rounds: []figures{
			{PerSecond: 100, P50: 10, P99: 10}, {PerSecond: 10, P50: 100, P99: 100}, {PerSecond: 100, P50: 10, P99: 10},
		}},
		{Workload: "w", Connections: 8, Contender: redis, Rounds: []figures{{PerSecond: 1, P50: 1}}},
		{Workload: "v", Connections: 1, Contender: redis, Rounds: []figures{{PerSecond: 1, P50: 1}}},
	}}
	r.compare()
	want := []ratio{{Workload: "w", Connections: 1, Against: redis, PerSecond: 0.9, P50: 2, P99: 5}}
	if diff := cmp.Diff(want, r.Ratios); diff != "" {
		t.Error(diff)
	}
	if r.ratio("w", 8, redis) != nil {
		t.Error("a ratio of what was not measured")
	}
}

func TestGoals(t *testing.T) {
	r := &report{Idle: &idle{RSS: 50e6, CPU: 0.0005}, Ratios: []ratio{
		{getHit, 64, bare, 0.91, 1, 1}, {getHit, 1, bare, 1, 1.16, 1}, {getHit, 64, redis, 0.5, 1, 0.9},
		{getHit, 1, upstream, 1, 1.0 / 600, 1},
	}, Cells: []*cell{
		{Workload: putDistinct, Connections: 1, Contender: botwired, Median: figures{CPU: 10}},
		{Workload: putDistinct, Connections: 64, Contender: redis, Median: figures{CPU: 11}},
		{Workload: putDistinct, Connections: 64, Contender: botwired, Median: figures{CPU: 17}},
	}}
	all := goals(r)
	var got []string
	for i := range all {
		got = append(got, all[i].outcome())
	}
	want := []string{
		"held", "**not held**", "**not held**", "held", "not measured", "**not held**", "not measured", "not measured",
		"held", "not measured", "not measured", "not measured", "**not held**", "held",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if checkGoals(all, false) != nil || checkGoals(all, true) == nil {
		t.Error("missed goals fail a strict run and no other")
	}
	if err := checkGoals([]goal{goal{What: "wished", Limit: 1, Stretch: true}.measured(0, true)}, true); err != nil {
		t.Error(err)
	}
}

func TestNumbersAreShown(t *testing.T) {
	for got, want := range map[string]string{
		thousands(0): "0", thousands(999): "999", thousands(1000): "1,000", thousands(1234567): "1,234,567",
		significant(0.5): "0.50", significant(12.34): "12.3", significant(4321.7): "4,322",
		duration(12.34): "12.3 µs", duration(1500): "1.50 ms", duration(2.5e6): "2.50 s",
		megabytes(36_000_000): "36.0 MB",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSumOfMetrics(t *testing.T) {
	const text = "# HELP m of all sorts\n# TYPE m counter\nm{op=\"get\",outcome=\"hit\"} 3\nm{op=\"get\",outcome=\"miss\"} 4\nother 5\n"
	for parts, want := range map[string]float64{"m{": 7, `outcome="miss"`: 4, "none": 0} {
		if got, err := sumOf(text, parts); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", parts, got, err, want)
		}
	}
	if _, err := sumOf("m{} x\n", "m{"); err == nil {
		t.Error("no error for what is no number")
	}
}

func TestRotated(t *testing.T) {
	if diff := cmp.Diff([]int{2, 0, 1}, rotated([]int{0, 1, 2}, 5)); diff != "" {
		t.Error(diff)
	}
}

func TestCounts(t *testing.T) {
	got, err := counts("sizes", "1, 8,64")
	if diff := cmp.Diff([]int{1, 8, 64}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, list := range []string{"", "0", "1,,2", "a"} {
		if _, err := counts("sizes", list); err == nil {
			t.Errorf("%q is taken", list)
		}
	}
}
