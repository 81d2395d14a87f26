package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The ratio is one within a round, and of CPU time only a GET hit has a limit.
func TestFeatureRatios(t *testing.T) {
	rounds := []featureRound{
		{Without: turnFigures{CPU: 10, PerSecond: 100}, With: turnFigures{CPU: 11, PerSecond: 90}},
		{Without: turnFigures{CPU: 100, PerSecond: 10}, With: turnFigures{CPU: 101, PerSecond: 10}},
		{Without: turnFigures{CPU: 20, PerSecond: 50}, With: turnFigures{CPU: 21, PerSecond: 40}},
	}
	row := &featureRow{Feature: "f", Load: getHit, Rounds: rounds}
	if diff := cmp.Diff([]float64{1.1, 1.01, 1.05}, row.ratios(cpuOf)); diff != "" {
		t.Error(diff)
	}
	if without, with := row.cpu(without), row.cpu(with); without != 20 || with != 21 {
		t.Errorf("CPU %v and %v, want 20 and 21", without, with)
	}
	same := &featureRow{Feature: sameTwice, Load: getHit, Rounds: rounds}
	put := &featureRow{Feature: "f", Load: putDistinct, Rounds: rounds}
	cheap := &featureRow{Feature: "g", Load: getHit, Rounds: rounds[1:2]}
	if !row.missed() || same.missed() || put.missed() || cheap.missed() {
		t.Error("only a GET hit that costs more with the feature misses the goal")
	}
	goals := featureGoals([]*featureRow{same, row, put, cheap})
	if len(goals) != 2 || goals[0].held() || !goals[1].held() {
		t.Errorf("goals %+v", goals)
	}
}

func TestQuantile(t *testing.T) {
	for _, row := range []struct {
		values  []float64
		q, want float64
	}{
		{nil, 0.5, 0},
		{[]float64{7}, 0.25, 7},
		{[]float64{3, 1, 2, 5, 4}, 0.25, 2},
		{[]float64{1, 2}, 0.75, 1.75},
		{[]float64{1, 2}, 1, 2},
	} {
		if got := quantile(row.values, row.q); math.Abs(got-row.want) > 1e-9 {
			t.Errorf("quantile %v of %v is %v, want %v", row.q, row.values, got, row.want)
		}
	}
}

func TestFeaturesOptions(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-turns", "0"}, {"-turns", "3"}, {"-for", "0s"}, {"-writes", "65"}, {"-receipts", "51"}, {"-only", "("}, {"-only", "nothing"}, {"more"},
	} {
		if _, err := parseFeaturesOptions(args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

// Figures that mean nothing, or that are of some features only, take no page's place.
func TestAPageGetsAllFeatures(t *testing.T) {
	for _, test := range []struct{ flag, page string }{{"-strict", "p"}, {"-quick", ""}, {"-only=quota", ""}} {
		o, err := parseFeaturesOptions([]string{"-page", "p", test.flag})
		if err != nil || o.page != test.page {
			t.Errorf("%s: the page %q, want %q: %v", test.flag, o.page, test.page, err)
		}
	}
}

// A run of nothing says so before it starts servers.
func TestNoWorkloadMatches(t *testing.T) {
	if _, err := parseOptions([]string{"-only", "no such workload"}); err == nil {
		t.Error("a comparison of nothing is taken")
	}
}

// A page without a place for the tables is refused before the work, not after it.
func TestAPageHasAPlace(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("<!-- features -->\n<!-- /features -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(hasPlace(page, featuresMark), hasPlace("", benchMark)); err != nil {
		t.Error(err)
	}
	if err := hasPlace(page, benchMark); err == nil {
		t.Error("a page without the part is taken")
	}
	if _, err := parseOptions([]string{"-latency", "-1s"}); err == nil {
		t.Error("an upstream that answers before it is asked is taken")
	}
}
