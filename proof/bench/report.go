package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/botwired/botwired/proof/machine"
)

// report holds all figures of a run, for the JSON.
type report struct {
	Machine machine.Machine `json:"machine"`
	Redis   string          `json:"redis,omitempty"` // version
	Nginx   string          `json:"nginx,omitempty"` // version
	Options settings        `json:"settings"`
	Idle    *idle           `json:"idle"`
	Cells   []*cell         `json:"cells"` // of the closed loop
	Open    []*cell         `json:"open"`  // of the open loop
	Ratios  []ratio         `json:"ratios"`
	Goals   []goal          `json:"goals"`
}

// ratio compares botwired with another contender: the median of the ratios within the
// rounds. Above 1, throughput is better and a time is worse.
type ratio struct {
	Workload    string    `json:"workload"`
	Connections int       `json:"connections"`
	Against     contender `json:"against"`
	PerSecond   float64   `json:"per_second"` // botwired's / the other's
	P50         float64   `json:"p50"`        // botwired's / the other's
	P99         float64   `json:"p99"`        // botwired's / the other's
}

// compare computes the ratios.
func (r *report) compare() {
	for _, ours := range r.Cells {
		if ours.Contender != botwired {
			continue
		}
		for _, other := range r.Cells {
			if other != ours && other.Workload == ours.Workload && other.Connections == ours.Connections {
				r.Ratios = append(r.Ratios, ratioOf(ours, other))
			}
		}
	}
}

func ratioOf(ours, other *cell) ratio {
	out := ratio{Workload: ours.Workload, Connections: ours.Connections, Against: other.Contender}
	var perSecond, p50, p99 []float64
	for i := range min(len(ours.Rounds), len(other.Rounds)) {
		perSecond = append(perSecond, ours.Rounds[i].PerSecond/other.Rounds[i].PerSecond)
		p50 = append(p50, ours.Rounds[i].P50/other.Rounds[i].P50)
		p99 = append(p99, ours.Rounds[i].P99/other.Rounds[i].P99)
	}
	out.PerSecond, out.P50, out.P99 = median(perSecond), median(p50), median(p99)
	return out
}

// ratio returns the ratio of that name, or nil if nobody measured it.
func (r *report) ratio(workload string, connections int, against contender) *ratio {
	i := slices.IndexFunc(r.Ratios, func(each ratio) bool {
		return each.Workload == workload && each.Connections == connections && each.Against == against
	})
	if i < 0 {
		return nil
	}
	return &r.Ratios[i]
}

// duration shows microseconds to three digits.
func duration(us float64) string {
	switch {
	case us < 1000:
		return significant(us) + " µs"
	case us < 1e6:
		return significant(us/1e3) + " ms"
	}
	return significant(us/1e6) + " s"
}

// significant shows a number to three digits, and whole if it has more.
func significant(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return thousands(v)
}

// thousands shows a whole number with commas.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// megabytes shows bytes in MB of 10^6.
func megabytes(n int64) string { return significant(float64(n)/1e6) + " MB" }

// kilobytes shows bytes in kB of 10^3.
func kilobytes(n int) string { return significant(float64(n)/1e3) + " kB" }

func writeJSON(name string, v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(content, '\n'), 0o600)
}
