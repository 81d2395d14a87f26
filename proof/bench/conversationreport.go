package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/botwired/botwired/proof/machine"
)

// conversationReport holds all figures of a run, for the JSON.
type conversationReport struct {
	Machine machine.Machine      `json:"machine"`
	Client  string               `json:"client"`
	Options conversationSettings `json:"settings"`
	Runs    []*held              `json:"runs"` // directly, through botwired; the same with an outage
}

func (r *conversationReport) print(w io.Writer) error {
	direct, through, cut, spared := r.Runs[0], r.Runs[1], r.Runs[2], r.Runs[3]
	rows := [][3]string{
		{fmt.Sprintf("%d messages", r.Options.Messages), "directly", "through botwired"},
		{"---", "---", "---"},
		{"all of them", inSeconds(direct.Wall), inSeconds(through.Wall)},
		{"one message, p50 and p99", waits(direct), waits(through)},
		{fmt.Sprintf("writes upstream, of %s a day", thousands(float64(r.Options.Quota))), fmt.Sprint(direct.Writes), fmt.Sprint(through.Writes)},
		{fmt.Sprintf("all of them, with upstream gone for %s in the middle", whole(r.Options.Outage)), inSeconds(cut.Wall), inSeconds(spared.Wall)},
		{"the longest wait for one message then", inSeconds(cut.Longest), inSeconds(spared.Longest)},
		{"messages lost then", fmt.Sprint(cut.Lost), fmt.Sprint(spared.Lost)},
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	fmt.Fprintf(&b, "\nThrough botwired, upstream had all of them %s after its return. The client is %s, and upstream is %s away; %s.\n",
		inSeconds(spared.CaughtUp), r.Client, r.Options.Latency, r.Machine)
	_, err := io.WriteString(w, b.String())
	return err
}

func inSeconds(s float64) string { return duration(s * 1e6) }

func waits(h *held) string { return duration(h.P50) + ", " + duration(h.P99) }

// whole is a duration without the zeros that Go adds.
func whole(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return duration(float64(d) / float64(time.Microsecond))
}

// check says what would make the comparison worthless.
func (r *conversationReport) check() (err error) {
	for _, h := range r.Runs {
		if h.Through && (h.Failed > 0 || h.Lost > 0) {
			err = errors.Join(err, fmt.Errorf("%s: %d messages failed, and %d are lost", h.name(), h.Failed, h.Lost))
		}
		if !h.Through && (h.Lost != h.Failed || h.Outage == 0 && h.Failed > 0 || h.Outage > 0 && h.Failed == 0) {
			err = errors.Join(err, fmt.Errorf("%s: %d messages failed, and %d are lost", h.name(), h.Failed, h.Lost))
		}
	}
	return err
}
