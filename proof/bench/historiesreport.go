package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/proof/machine"
)

// historiesReport holds all figures of a run, for the JSON.
type historiesReport struct {
	Machine machine.Machine   `json:"machine"`
	Options historiesSettings `json:"settings"`
	Rows    []*historyRow     `json:"rows"`
}

// historyRow has the figures of an adapter.
type historyRow struct {
	Name     string `json:"name"` // of its script
	Direct   kept   `json:"direct"`
	Through  kept   `json:"through"`
	Thinking kept   `json:"thinking"` // through botwired, with an agent that thinks
}

func (r *historiesReport) print(w io.Writer) error {
	// BotWire's own class comes first, for comparison: it sends most.
	slices.SortStableFunc(r.Rows, func(a, b *historyRow) int { return cmp.Compare(b.Direct.Bytes, a.Direct.Bytes) })
	var b strings.Builder
	b.WriteString("| " + fmt.Sprint(r.Options.Messages) + " messages | directly | through botwired | through botwired, with a pause after each message |\n")
	b.WriteString("|---|---|---|---|\n")
	for _, row := range r.Rows {
		direct, through := inSeconds(row.Direct.Wall), inSeconds(row.Through.Wall)
		fmt.Fprintf(&b, "| %s | %s, %s | %s, %s | %s |\n", row.Direct.Adapter, direct, &row.Direct, through, &row.Through, &row.Thinking)
	}
	fmt.Fprintf(&b, "\nTime for all messages, writes upstream, and bytes in them. The pause is %s, upstream is %s away; Python has %s; %s.\n",
		r.Options.Think, r.Options.Latency, strings.Join(r.versions(), ", "), r.Machine)
	_, err := io.WriteString(w, b.String())
	return err
}

// versions names the packages of all rows, each once.
func (r *historiesReport) versions() (all []string) {
	for _, row := range r.Rows {
		all = append(all, strings.Split(row.Direct.Versions, ", ")...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// String returns what a conversation costs upstream.
func (k *kept) String() string { return words.Count(k.Writes, "write") + ", " + kilobytes(k.Bytes) }

// historiesMark names the table's place on a page.
const historiesMark = "histories"
