package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// point is one size in one state.
type point struct {
	Entries   int     `json:"entries"`
	State     string  `json:"state"`      // "pending" or "settled"
	PerSecond float64 `json:"per_second"` // writes acknowledged, or carried upstream, on the way there
	Disk      int64   `json:"disk"`       // bytes in the data directory
	RSS       int64   `json:"rss"`        // resident bytes: the most
	Ready     float64 `json:"ready"`      // seconds from exec to ready, after a SIGKILL
	Counted   float64 `json:"counted"`    // and until the daemon has counted its pending writes
	Get       figures `json:"get"`        // one connection
	Put       figures `json:"put"`
	GetRatio  float64 `json:"get_ratio"` // p50 over the reference's, in the same rounds
	PutRatio  float64 `json:"put_ratio"`

	gets, puts, referenceGets, referencePuts []figures // by round
}

// sum takes the medians of the rounds.
func (p *point) sum() {
	p.Get, p.Put = medianOf(p.gets), medianOf(p.puts)
	p.GetRatio = medianRatio(p.gets, p.referenceGets)
	p.PutRatio = medianRatio(p.puts, p.referencePuts)
}

// medianRatio returns the median of the ratios of the p50 within the rounds.
func medianRatio(ours, theirs []figures) float64 {
	ratios := make([]float64, min(len(ours), len(theirs)))
	for i := range ratios {
		ratios[i] = ours[i].P50 / theirs[i].P50
	}
	return median(ratios)
}

// growthReport holds all figures of a run, for the JSON.
type growthReport struct {
	Machine machine        `json:"machine"`
	Options growthSettings `json:"settings"`
	Points  []*point       `json:"points"`
	Goals   []goal         `json:"goals"`
}

func (r *growthReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "p50 and p99 at c=1; × is the p50 over that of a daemon with %s pending writes in the same rounds. "+
		"%d rounds of %s, values of %d bytes; %s.\n\n",
		thousands(referenceSize), r.Options.Rounds, r.Options.For, valueSize, r.Machine)
	b.WriteString("| entries | | GET | × | PUT | × | resident | ready after | counted after | on disk | an entry | writes/s on the way |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.Points {
		fmt.Fprintf(&b, "| %s | %s | %s, %s | %s | %s, %s | %s | %s | %s | %s | %s | %s | %s |\n",
			thousands(float64(p.Entries)), p.State, duration(p.Get.P50), duration(p.Get.P99), significant(p.GetRatio),
			duration(p.Put.P50), duration(p.Put.P99), significant(p.PutRatio), megabytes(p.RSS),
			duration(p.Ready*1e6), duration(p.Counted*1e6), megabytes(p.Disk),
			significant(float64(p.Disk)/float64(p.Entries))+" B", thousands(p.PerSecond))
	}
	printGoals(&b, r.Goals)
	_, err := io.WriteString(w, b.String())
	return err
}

// goalSize is the number of pending writes in the goals.
const goalSize = 1_000_000

func growthGoals(r *growthReport) []goal {
	i := slices.IndexFunc(r.Points, func(p *point) bool { return p.Entries == goalSize && p.State == "pending" })
	p, known := &point{}, i >= 0
	if known {
		p = r.Points[i]
	}
	of := thousands(goalSize) + " pending: "
	return []goal{
		goal{What: of + "resident", Limit: 1 << 10, AtMost: true, Unit: "MiB"}.measured(float64(p.RSS)/(1<<20), known),
		goal{What: of + "ready after a kill within", Limit: 3, AtMost: true, Unit: "s"}.measured(p.Ready, known),
		goal{What: of + "GET p50 over that at 1,000", Limit: 1.3, AtMost: true, Unit: "×"}.measured(p.GetRatio, known),
	}
}
