package main

import (
	"fmt"
	"strings"
)

// goal is a limit that a figure has to keep, or should.
type goal struct {
	What     string  `json:"what"`
	Limit    float64 `json:"limit"`
	AtMost   bool    `json:"at_most"` // else at least
	Stretch  bool    `json:"stretch"` // should hold, and fails no run
	Measured float64 `json:"measured"`
	Known    bool    `json:"known"` // whether it was measured
	Unit     string  `json:"unit"`  // of limit and measured
}

func (g *goal) held() bool {
	if g.AtMost {
		return g.Known && g.Measured <= g.Limit
	}
	return g.Known && g.Measured >= g.Limit
}

// measured sets a goal's figure.
func (g goal) measured(v float64, known bool) goal {
	g.Measured, g.Known = v, known
	return g
}

// pageCost is what an open page may seem to cost: two runs of the same server differ by as much.
const pageCost = 1.05

// goals returns the goals of a comparison.
func goals(r *report) []goal {
	throughput := func(workload string, connections int, against contender) (float64, bool) {
		if found := r.ratio(workload, connections, against); found != nil {
			return found.PerSecond, true
		}
		return 0, false
	}
	p50 := func(workload string, connections int, against contender) (float64, bool) {
		if found := r.ratio(workload, connections, against); found != nil {
			return found.P50, true
		}
		return 0, false
	}
	p99 := func(workload string, connections int, against contender) (float64, bool) {
		if found := r.ratio(workload, connections, against); found != nil {
			return found.P99, true
		}
		return 0, false
	}
	faster := func(workload string) (float64, bool) {
		slower, known := p50(workload, 1, upstream)
		if !known {
			return 0, false
		}
		return 1 / slower, true
	}
	all := []goal{
		goal{What: "GET hit, throughput at c=64 over the bare handler's", Limit: 0.90, Unit: "×"}.
			measured(throughput(getHit, 64, bare)),
		goal{What: "GET hit, p50 at c=1 over the bare handler's", Limit: 1.15, AtMost: true, Unit: "×"}.
			measured(p50(getHit, 1, bare)),
		goal{What: "GET hit, throughput at c=64 over Redis GET's", Limit: 1, Unit: "×"}.
			measured(throughput(getHit, 64, redis)),
		goal{What: "GET hit, p99 at c=64 over Redis GET's", Limit: 1, AtMost: true, Unit: "×"}.
			measured(p99(getHit, 64, redis)),
		goal{What: "PUT of distinct keys, throughput at c=64 over Redis SET's", Limit: 0.75, Unit: "×"}.
			measured(throughput(putDistinct, 64, redis)),
		goal{What: "PUT of distinct keys, CPU a request at c=64", Limit: 16, AtMost: true, Unit: "µs"}.
			measured(r.cpu(putDistinct, 64)),
		goal{What: "PUT of distinct keys, p99 at c=64 over Redis SET's", Limit: 1.5, AtMost: true, Unit: "×"}.
			measured(p99(putDistinct, 64, redis)),
		goal{What: "PUT of distinct keys, p50 at c=1 over Redis SET's", Limit: 1, AtMost: true, Unit: "×"}.
			measured(p50(putDistinct, 1, redis)),
		goal{What: "GET hit, times faster than upstream, p50 at c=1", Limit: 500, Unit: "×"}.
			measured(faster(getHit)),
		goal{What: "PUT of distinct keys, times faster than upstream, p50 at c=1", Limit: 150, Unit: "×"}.
			measured(faster(putDistinct)),
		goal{What: "GET hit, throughput at c=64 over that with a page open", Limit: pageCost, AtMost: true, Unit: "×"}.
			measured(throughput(getHit, 64, page)),
		goal{What: "PUT of distinct keys, throughput at c=64 over that with a page open", Limit: pageCost, AtMost: true, Unit: "×"}.
			measured(throughput(putDistinct, 64, page)),
	}
	if r.Idle != nil {
		all = append(all,
			goal{What: "idle: resident", Limit: 40, AtMost: true, Unit: "MB"}.measured(float64(r.Idle.RSS)/1e6, true),
			goal{What: "idle: share of a core", Limit: 0.1, AtMost: true, Unit: "%"}.measured(100*r.Idle.CPU, true))
	}
	return all
}

// cpu returns the CPU time of a request to botwired, in microseconds.
func (r *report) cpu(workload string, connections int) (us float64, known bool) {
	for _, c := range r.Cells {
		if c.Workload == workload && c.Connections == connections && c.Contender == botwired {
			return c.Median.CPU, c.Median.CPU > 0
		}
	}
	return 0, false
}

func printGoals(b *strings.Builder, goals []goal) {
	b.WriteString("\nMust hold:\n\n| | limit | measured | |\n|---|---|---|---|\n")
	for _, g := range goals {
		bound := "≥"
		if g.AtMost {
			bound = "≤"
		}
		fmt.Fprintf(b, "| %s | %s %v %s | %s | %s |\n", g.What, bound, g.Limit, g.Unit, g.shown(), g.outcome())
	}
}

func (g *goal) shown() string {
	if !g.Known {
		return "–"
	}
	if g.Measured < 0.1 {
		return fmt.Sprintf("%.2g %s", g.Measured, g.Unit)
	}
	return significant(g.Measured) + " " + g.Unit
}

func (g *goal) outcome() string {
	switch {
	case !g.Known:
		return "not measured"
	case g.held():
		return "held"
	case g.Stretch:
		return "not reached (wished for)"
	}
	return "**not held**"
}

// checkGoals returns an error if the run missed a goal that has to hold, and strict says
// that this matters.
func checkGoals(goals []goal, strict bool) error {
	if !strict {
		return nil
	}
	var missed []string
	for _, g := range goals {
		if !g.Stretch && !g.held() {
			missed = append(missed, g.What)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("not held: %s", strings.Join(missed, "; "))
	}
	return nil
}
