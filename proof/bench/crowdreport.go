package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/proof/machine"
)

// times sum up how long something took, in microseconds.
type times struct {
	Median float64 `json:"median_us"`
	P99    float64 `json:"p99_us"`
	Worst  float64 `json:"worst_us"`
}

func timesOf(all []time.Duration) (t times) {
	if len(all) == 0 {
		return t
	}
	sorted := slices.Sorted(slices.Values(all))
	at := func(i int) float64 { return microseconds(sorted[i]) }
	last := len(sorted) - 1
	return times{Median: (at(last/2) + at(len(sorted)/2)) / 2, P99: at(last - last/100), Worst: at(last)}
}

// liveness is how the callers fared while the requests were made, and how soon the events of their
// writes came.
type liveness struct {
	Writes int   `json:"writes"`
	Put    times `json:"put"`
	Event  times `json:"event"` // since before the write was sent
}

// crowdReport holds all figures of a run, for the JSON.
type crowdReport struct {
	Machine  machine.Machine `json:"machine"`
	Options  crowdSettings   `json:"settings"`
	Requests []*crowdFigures `json:"requests"`
	Live     *liveness       `json:"live"`
	Goals    []goal          `json:"goals"`
}

func (r *crowdReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s namespaces with %d pending writes each, upstream down, %d writes a second meanwhile; "+
		"each request %d times; %s.\n\n", thousands(float64(r.Options.Namespaces)), r.Options.Each, r.Options.Writes, r.Options.Times, r.Machine)
	b.WriteString("| who asks | request | median | slowest | answer |\n|---|---|---|---|---|\n")
	for _, f := range r.Requests {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", f.Who, f.Path, duration(f.Median), duration(f.Worst), kilobytes(f.Bytes))
	}
	b.WriteString("\n| meanwhile | median | 99 % | slowest |\n|---|---|---|---|\n")
	row := func(name string, t times) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, duration(t.Median), duration(t.P99), duration(t.Worst))
	}
	row(thousands(float64(r.Live.Writes))+" durable writes", r.Live.Put)
	row("until the event of a write has come", r.Live.Event)
	printGoals(&b, r.Goals)
	_, err := io.WriteString(w, b.String())
	return err
}

func kilobytes(n int) string { return significant(float64(n)/1e3) + " kB" }

// pageAnswersWithin is how long the page may wait for an answer, in milliseconds: a person takes
// that for at once.
const pageAnswersWithin = 200

func crowdGoals(r *crowdReport) []goal {
	slowest := 0.0
	for _, f := range r.Requests {
		if f.Who == thePage {
			slowest = max(slowest, f.Worst)
		}
	}
	within := goal{Limit: pageAnswersWithin, AtMost: true, Unit: "ms"}
	answer, event := within, within
	answer.What, event.What = "the slowest answer to the page", "the slowest event of a write"
	return []goal{answer.measured(slowest/1e3, true), event.measured(r.Live.Event.Worst/1e3, true)}
}
