package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/botwired/botwired/proof/load"
)

// figures are the results of a cell. Times are in microseconds.
type figures struct {
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	P999      float64 `json:"p999_us"`
	CPU       float64 `json:"cpu_us"`       // of the server's processes, a request; 0 if unknown
	Generator float64 `json:"generator_us"` // of this process, a request; 0 if unknown
}

// cell is one workload on one contender.
type cell struct {
	Workload    string    `json:"workload"`
	Connections int       `json:"connections"`
	Contender   contender `json:"contender"`
	Percent     int       `json:"percent,omitempty"` // of an open loop: see openRates
	Rate        float64   `json:"rate,omitempty"`    // of an open loop, in requests a second
	Rounds      []figures `json:"rounds"`
	Median      figures   `json:"median"`
}

// measureAll measures all cells of the closed loop, round by round.
func measureAll(ctx context.Context, s *stage) ([]*cell, error) {
	var cells []*cell
	for _, w := range workloads() {
		for _, connections := range s.options.Connections {
			for _, c := range contenders {
				if s.options.only.MatchString(w.name) && w.runs(c, connections) {
					cells = append(cells, &cell{Workload: w.name, Connections: connections, Contender: c})
				}
			}
		}
	}
	return measureCells(ctx, s, cells)
}

// measureOpen measures the cells of the open loop: each contender at the same rates.
func measureOpen(ctx context.Context, s *stage, closed []*cell) ([]*cell, error) {
	var cells []*cell
	for _, w := range workloads() {
		slowest := slowestOf(closed, w.name)
		for _, percent := range s.options.Open {
			for _, c := range contenders {
				if w.wide && slowest > 0 && w.runs(c, openConnections) && c != page && c != upstream {
					cells = append(cells, &cell{
						Workload: w.name, Connections: openConnections, Contender: c,
						Percent: percent, Rate: slowest * float64(percent) / 100,
					})
				}
			}
		}
	}
	return measureCells(ctx, s, cells)
}

// slowestOf returns the least throughput that one of the servers on this machine reaches in the closed
// loop, or 0 if nobody measured it.
func slowestOf(closed []*cell, workload string) (slowest float64) {
	for _, c := range closed {
		if c.Workload != workload || c.Connections != openConnections || !slices.Contains([]contender{botwired, redis, nginx, bare}, c.Contender) {
			continue
		}
		if slowest == 0 || c.Median.PerSecond < slowest {
			slowest = c.Median.PerSecond
		}
	}
	return slowest
}

// measureCells measures all cells once in each round, and returns those whose contender is there. Cells
// of one group, which differ in the contender only, begin with another in each round.
func measureCells(ctx context.Context, s *stage, cells []*cell) ([]*cell, error) {
	progress := newProgress(os.Stderr)
	defer progress.end()
	kinds := map[string]*workload{}
	for _, w := range workloads() {
		kinds[w.name] = &w
	}
	for round := range s.options.Rounds {
		for rest := cells; len(rest) > 0; {
			group := rest[:groupOf(rest)]
			rest = rest[len(group):]
			for _, c := range rotated(group, round) {
				progress.show("round %d/%d: %s", round+1, s.options.Rounds, c.name())
				if err := measure(ctx, s, kinds[c.Workload], c); err != nil {
					return nil, fmt.Errorf("%s: %w", c.name(), err)
				}
			}
		}
	}
	return slices.DeleteFunc(cells, func(c *cell) bool { return len(c.Rounds) == 0 }), nil
}

// name says which cell that is.
func (c *cell) name() string {
	name := fmt.Sprintf("%s, %d connections, %s", c.Workload, c.Connections, c.Contender)
	if c.Rate > 0 {
		name += fmt.Sprintf(", %.0f a second", c.Rate)
	}
	return name
}

// groupOf returns the length of the first group of cells.
func groupOf(cells []*cell) int {
	first := cells[0]
	other := slices.IndexFunc(cells, func(c *cell) bool {
		return c.Workload != first.Workload || c.Connections != first.Connections || c.Percent != first.Percent
	})
	if other < 0 {
		return len(cells)
	}
	return other
}

// rotated puts each element first in turn.
func rotated[T any](all []T, by int) []T {
	by %= len(all)
	return slices.Concat(all[by:], all[:by])
}

// measure adds a round to a cell, unless its contender is missing.
func measure(ctx context.Context, s *stage, w *workload, c *cell) error {
	on, err := w.on[c.Contender](ctx, s)
	if on == nil || err != nil {
		return err
	}
	cost := &meter{server: on.server}
	result, err := load.Run(ctx, load.Options{
		Address: on.address, Connections: c.Connections, Warmup: s.options.Warmup, Duration: s.options.For,
		Rate: c.Rate, Sample: cost.sample, Request: on.request, Answer: on.answer,
	})
	if on.done != nil {
		err = errors.Join(err, on.done(ctx))
	}
	if err != nil {
		return err
	}
	f := figuresOf(result)
	f.CPU, f.Generator = cost.perRequest()
	c.Rounds = append(c.Rounds, f)
	c.Median = medianOf(c.Rounds)
	return nil
}

func figuresOf(r *load.Result) figures {
	return figures{
		PerSecond: r.PerSecond,
		P50:       microseconds(r.Latency.Percentile(50)),
		P99:       microseconds(r.Latency.Percentile(99)),
		P999:      microseconds(r.Latency.Percentile(99.9)),
	}
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// medianOf takes the median of each figure by itself.
func medianOf(rounds []figures) figures {
	of := func(pick func(figures) float64) float64 {
		values := make([]float64, len(rounds))
		for i, f := range rounds {
			values[i] = pick(f)
		}
		return median(values)
	}
	return figures{
		PerSecond: of(func(f figures) float64 { return f.PerSecond }),
		P50:       of(func(f figures) float64 { return f.P50 }),
		P99:       of(func(f figures) float64 { return f.P99 }),
		P999:      of(func(f figures) float64 { return f.P999 }),
		CPU:       of(func(f figures) float64 { return f.CPU }),
		Generator: of(func(f figures) float64 { return f.Generator }),
	}
}

// median returns 0 for nothing, and the mean of the two in the middle for an even number.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
