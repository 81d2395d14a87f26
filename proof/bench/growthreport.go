package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/proof/machine"
)

// The states of a point.
const (
	statePending = "pending"
	stateSettled = "settled"
)

// point is one size in one state.
type point struct {
	Entries    int     `json:"entries"`
	Namespaces int     `json:"namespaces"`
	State      string  `json:"state"`
	FilledIn   float64 `json:"filled_in"` // seconds that the daemon took for the writes, or bench for its journal; 0 if a drain led here
	Drain      drained `json:"drain"`     // on the way to a settled daemon, or of a sample
	Disk       int64   `json:"disk"`      // bytes in the data directory
	RSS        int64   `json:"rss"`       // resident bytes: the most
	Ready      float64 `json:"ready"`     // seconds from exec to ready, after a SIGKILL: the slowest start
	Counted    float64 `json:"counted"`   // and until the daemon has counted its pending writes
	Get        figures `json:"get"`       // one connection
	Put        figures `json:"put"`
	First      figures `json:"first"`     // GET of one entry after the other, each for the first time since the start
	GetRatio   float64 `json:"get_ratio"` // p50 over the reference's, in the same rounds
	PutRatio   float64 `json:"put_ratio"`

	// By round; the reference's, too.
	Gets          []figures `json:"gets"`
	Puts          []figures `json:"puts"`
	Firsts        []figures `json:"firsts"`
	ReferenceGets []figures `json:"reference_gets"`
	ReferencePuts []figures `json:"reference_puts"`
}

// sum takes the medians of the rounds.
func (p *point) sum() {
	p.Get, p.Put, p.First = medianOf(p.Gets), medianOf(p.Puts), medianOf(p.Firsts)
	p.GetRatio = medianRatio(p.Gets, p.ReferenceGets)
	p.PutRatio = medianRatio(p.Puts, p.ReferencePuts)
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
	Machine machine.Machine `json:"machine"`
	Options growthSettings  `json:"settings"`
	Points  []*point        `json:"points"`
	Goals   []goal          `json:"goals"`
}

// growthMark names the table's place on a page.
const growthMark = "growth"

func (r *growthReport) print(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| entries | namespaces | | GET | × | PUT | × | first GET | resident | ready after a kill | counted after | on disk | drained |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.Points {
		fmt.Fprintf(&b, "| %s | %s | %s | %s, %s | %s | %s, %s | %s | %s, %s | %s | %s | %s | %s | %s |\n",
			thousands(float64(p.Entries)), thousands(float64(p.Namespaces)), p.State,
			duration(p.Get.P50), duration(p.Get.P99), significant(p.GetRatio),
			duration(p.Put.P50), duration(p.Put.P99), significant(p.PutRatio),
			duration(p.First.P50), duration(p.First.P99), megabytes(p.RSS),
			duration(p.Ready*1e6), duration(p.Counted*1e6), megabytes(p.Disk), p.Drain.shown())
	}
	printGoals(&b, r.Goals)
	fmt.Fprintf(&b, "\nGET and PUT of %s entries in use: p50 and p99 at one connection; × is the p50 over that of a daemon with %[1]s pending writes in the same rounds. "+
		"First GET: that of one entry after the other, each for the first time since the start; of fewer entries than bench reads, again and again. "+
		"%[2]s of %[3]s, values of %[4]d bytes; the slowest of %[5]s; %[6]s.\n",
		thousands(referenceSize), words.Count(r.Options.Rounds, "round"), r.Options.For, valueSize,
		words.Count(r.Options.Restarts, "start"), r.Machine)
	_, err := io.WriteString(w, b.String())
	return err
}

// shown is empty if nothing was drained.
func (d drained) shown() string {
	if d.Writes == 0 {
		return "–"
	}
	return thousands(float64(d.Writes)) + " in " + duration(d.Seconds*1e6) + ", " + thousands(d.PerSecond()) + " a second"
}
