package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
)

// maxBenchRequests bounds each number of requests that bench's flags ask for.
const maxBenchRequests = 100_000

// benchPlan is how many requests bench makes.
type benchPlan struct{ reads, writes, local int }

func newBenchCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure upstream directly and through the running daemon",
		GroupID: groupCare,
		Example: "  botwired bench\n" +
			"  botwired bench --reads 200 --writes 5 --json",
		Long: "Measure GET and PUT against upstream directly, and the same through the running daemon.\n" +
			"bench writes to upstream --writes times, and the daemon a few times more: both count against\n" +
			"the quota. bench uses a namespace of its own, and removes at the end what it wrote.",
		Args: noArguments,
	}
	settings.takes(cmd, append([]string{"upstream.url", "upstream.timeout", "upstream.headers"}, clientSettings...)...)
	plan := &benchPlan{}
	cmd.Flags().IntVar(&plan.reads, "reads", 50, "reads from upstream directly")
	cmd.Flags().IntVar(&plan.writes, "writes", 20, "writes to upstream directly")
	cmd.Flags().IntVar(&plan.local, "local", 1000, "reads, and as many writes, through the daemon")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := plan.check(); err != nil {
			return err
		}
		b, err := newBench(cmd.Context(), settings, *plan)
		if err != nil {
			return err
		}
		defer b.close()
		fmt.Fprintf(p.stderr, "bench makes %s to %s, and botwired a few more: they count against the quota\n", plural(plan.writes, "write"), b.upstreamURL)
		rows, err := b.run(cmd.Context())
		left, cleanErr := b.clean(cmd.Context())
		if err := errors.Join(err, cleanErr); err != nil {
			return err
		}
		if left {
			fmt.Fprintf(p.stderr, "upstream still holds the namespace %s: botwired goes on deleting it\n", b.namespace)
		}
		if *asJSON {
			return encodeJSON(p.stdout, map[string]any{"upstream": b.upstreamURL, "measured": rows})
		}
		return printBench(p.screen(), rows)
	}
	return cmd
}

func (p *benchPlan) check() error {
	for name, n := range map[string]int{"reads": p.reads, "writes": p.writes, "local": p.local} {
		if n < 1 || n > maxBenchRequests {
			return usagef("--%s = %d: expected a number from 1 to %d", name, n, maxBenchRequests)
		}
	}
	return nil
}

// benchRow has the figures of one operation, directly and through the daemon. Times are in
// milliseconds.
type benchRow struct {
	Op       string    `json:"op"`
	Upstream benchCell `json:"upstream"`
	Botwired benchCell `json:"botwired"`
}

type benchCell struct {
	Requests int     `json:"requests"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
}

func printBench(w io.Writer, rows []benchRow) error {
	shown := func(ms float64) string { return strconv.FormatFloat(ms, 'f', 3, 64) + "ms" }
	var table [][]string
	for _, r := range rows {
		for _, each := range []struct {
			name       string
			up, daemon float64
		}{{"p50", r.Upstream.P50, r.Botwired.P50}, {"p99", r.Upstream.P99, r.Botwired.P99}} {
			table = append(table, []string{
				r.Op + " " + each.name, shown(each.up), shown(each.daemon), times(each.up / each.daemon),
			})
		}
	}
	return printTable(w, []string{"", "UPSTREAM", "BOTWIRED", "FASTER"}, table)
}

// times is a ratio to about two digits: a daemon that is slower is not 0 times as fast.
func times(ratio float64) string {
	digits := 0
	switch {
	case ratio < 1:
		digits = 2
	case ratio < 10:
		digits = 1
	}
	return strconv.FormatFloat(ratio, 'f', digits, 64) + "x"
}
