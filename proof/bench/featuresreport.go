package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/proof/load"
	"github.com/botwired/botwired/proof/machine"
)

// featuresReport holds all figures of a run, for the JSON.
type featuresReport struct {
	Machine machine.Machine  `json:"machine"`
	Options featuresSettings `json:"settings"`
	Rows    []*featureRow    `json:"rows"`
	Goals   []goal           `json:"goals"`
}

// featureRow has the figures of a feature under one load.
type featureRow struct {
	Feature     string         `json:"feature"`
	Variants    [2]string      `json:"variants"` // the daemons without and with it, for people
	Load        string         `json:"load"`
	Connections int            `json:"connections"`
	Rounds      []featureRound `json:"rounds"`
}

// featureRound has the figures of both daemons in one round.
type featureRound struct {
	Without turnFigures `json:"without"`
	With    turnFigures `json:"with"`
}

// turnFigures are the results of a daemon's turns in a round. Times are in microseconds.
type turnFigures struct {
	CPU       float64 `json:"cpu_us"` // of the daemon, for each request
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
}

func newFeatureRows(f *feature) (rows []*featureRow) {
	for _, l := range featureLoads {
		rows = append(rows, &featureRow{Feature: f.name, Variants: f.variants, Load: l.name, Connections: l.connections})
	}
	return rows
}

// turnSum sums up the turns of a daemon in a round.
type turnSum struct {
	cpu      time.Duration
	answered int // for that
	latency  load.Histogram
	rates    []float64 // of the turns, in requests a second
}

func (s *turnSum) add(cpu time.Duration, answered int, r *load.Result, perSecond float64) {
	s.cpu += cpu
	s.answered += answered
	s.latency.Add(&r.Latency)
	s.rates = append(s.rates, perSecond)
}

// figures are those of all turns together; the throughput is the mean of the turns'.
func (s *turnSum) figures() turnFigures {
	f := turnFigures{
		CPU: microseconds(s.cpu) / float64(max(1, s.answered)),
		P50: microseconds(s.latency.Percentile(50)), P99: microseconds(s.latency.Percentile(99)),
	}
	for _, rate := range s.rates {
		f.PerSecond += rate / float64(len(s.rates))
	}
	return f
}

// The figures of a round.
func cpuOf(f *turnFigures) float64       { return f.CPU }
func perSecondOf(f *turnFigures) float64 { return f.PerSecond }
func p50Of(f *turnFigures) float64       { return f.P50 }
func p99Of(f *turnFigures) float64       { return f.P99 }

// ratios are those of the daemon with the feature over the one without, by round.
func (r *featureRow) ratios(of func(*turnFigures) float64) []float64 {
	values := make([]float64, len(r.Rounds))
	for i := range r.Rounds {
		values[i] = of(&r.Rounds[i].With) / of(&r.Rounds[i].Without)
	}
	return values
}

// cpu is the CPU time of one of the daemons for a request, in microseconds.
func (r *featureRow) cpu(v variant) float64 {
	values := make([]float64, len(r.Rounds))
	for i, round := range r.Rounds {
		values[i] = [2]turnFigures{round.Without, round.With}[v].CPU
	}
	return median(values)
}

// featureCost is the most CPU time that a feature may add to a GET hit, as a ratio.
const featureCost = 1.02

// missed reports whether the feature costs more than it may.
func (r *featureRow) missed() bool { return r.bounded() && median(r.ratios(cpuOf)) > featureCost }

// bounded reports whether the row has a goal.
func (r *featureRow) bounded() bool { return r.Load == getHit && r.Feature != sameTwice }

// featureGoals returns the goals: no feature makes a GET hit dearer.
func featureGoals(rows []*featureRow) (all []goal) {
	for _, r := range rows {
		if r.bounded() {
			what := fmt.Sprintf("%s: CPU of a GET hit at c=%d, with it over without", r.Feature, r.Connections)
			all = append(all, goal{What: what, Limit: featureCost, AtMost: true, Unit: "×"}.measured(median(r.ratios(cpuOf)), true))
		}
	}
	return all
}

// print writes the tables and the goals, in Markdown.
func (r *featuresReport) print(w io.Writer) error {
	if err := r.printTables(w); err != nil {
		return err
	}
	var b strings.Builder
	printGoals(&b, r.Goals)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *featuresReport) printTables(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| feature | request | c | CPU without | CPU with | CPU × | throughput × | p50 × | p99 × |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		cpu := spreadOf(row.ratios(cpuOf))
		if row.missed() {
			cpu = "**" + cpu + "**"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %s | %s | %s |\n",
			row.Feature, row.Load, row.Connections, duration(row.cpu(without)), duration(row.cpu(with)), cpu,
			spreadOf(row.ratios(perSecondOf)), spreadOf(row.ratios(p50Of)), spreadOf(row.ratios(p99Of)))
	}
	b.WriteString("\n| feature | without | with |\n|---|---|---|\n")
	for i, row := range r.Rows {
		if i%len(featureLoads) == 0 {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", row.Feature, row.Variants[without], row.Variants[with])
		}
	}
	o := r.Options
	fmt.Fprintf(&b, "\nc is the number of connections, and CPU the daemon's time for each request. × is the figure with the feature over "+
		"the one without: the median of %s, and in brackets the middle half of the rounds. A median is in bold where a GET hit "+
		"costs more than %.2f. In a round, a daemon has %d turns of %s for reads, and two of %s or until upstream has the writes; "+
		"upstream is %s away from the durable writes, and near for all else; %s.\n",
		words.Count(o.Rounds, "round"), featureCost, o.Turns, o.For, o.For*time.Duration(o.Turns)/2, o.Latency, r.Machine)
	_, err := io.WriteString(w, b.String())
	return err
}

// spreadOf shows the median of ratios, and the range of their middle half.
func spreadOf(ratios []float64) string {
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(ratios), quantile(ratios, 0.25), quantile(ratios, 0.75))
}

// quantile interpolates between the two nearest values. It returns 0 for none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := math.Floor(at)
	above := min(int(below)+1, len(sorted)-1)
	return sorted[int(below)] + (at-below)*(sorted[above]-sorted[int(below)])
}

// featuresMark names the tables' place on a page.
const featuresMark = "features"
