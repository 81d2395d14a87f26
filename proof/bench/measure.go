package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/botwired/botwired/internal/load"
)

// figures are the results of a cell. Times are in microseconds.
type figures struct {
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
}

// cell is one workload on one contender.
type cell struct {
	Workload    string    `json:"workload"`
	Connections int       `json:"connections"`
	Contender   contender `json:"contender"`
	Rounds      []figures `json:"rounds"`
	Median      figures   `json:"median"`
}

// measureAll measures all cells, round by round.
func measureAll(ctx context.Context, s *stage) ([]*cell, error) {
	var cells []*cell
	progress := newProgress(os.Stderr)
	defer progress.end()
	for round := range s.options.Rounds {
		for _, w := range workloads() {
			if !s.options.only.MatchString(w.name) {
				continue
			}
			for _, connections := range s.options.Connections {
				for _, c := range rotated(contenders, round) {
					progress.show("round %d/%d: %s, %d connections, %s", round+1, s.options.Rounds, w.name, connections, c)
					f, err := measure(ctx, s, &w, c, connections)
					if err != nil {
						return nil, fmt.Errorf("%s, %d connections, %s: %w", w.name, connections, c, err)
					}
					if f != nil {
						at := find(&cells, w.name, connections, c)
						at.Rounds = append(at.Rounds, *f)
						at.Median = medianOf(at.Rounds)
					}
				}
			}
		}
	}
	return cells, nil
}

// rotated puts each element first in turn.
func rotated[T any](all []T, by int) []T {
	by %= len(all)
	return slices.Concat(all[by:], all[:by])
}

// find returns the cell of that name, and makes it if there is none.
func find(cells *[]*cell, workload string, connections int, c contender) *cell {
	for _, each := range *cells {
		if each.Workload == workload && each.Connections == connections && each.Contender == c {
			return each
		}
	}
	made := &cell{Workload: workload, Connections: connections, Contender: c}
	*cells = append(*cells, made)
	return made
}

// measure returns nil if the contender does not take part.
func measure(ctx context.Context, s *stage, w *workload, c contender, connections int) (*figures, error) {
	prepare, ok := w.on[c]
	if !ok {
		return nil, nil
	}
	on, err := prepare(ctx, s)
	if on == nil || err != nil {
		return nil, err
	}
	result, err := load.Run(ctx, load.Options{
		Address: on.address, Connections: connections, Warmup: s.options.Warmup, Duration: s.options.For,
		Request: on.request, Answer: on.answer,
	})
	if on.done != nil {
		err = errors.Join(err, on.done(ctx))
	}
	if err != nil {
		return nil, err
	}
	f := figuresOf(result)
	return &f, nil
}

func figuresOf(r *load.Result) figures {
	return figures{
		PerSecond: r.PerSecond,
		P50:       microseconds(r.Latency.Percentile(50)),
		P99:       microseconds(r.Latency.Percentile(99)),
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
