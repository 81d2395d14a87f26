package cli

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/drill"
	"github.com/botwired/botwired/internal/drill/throwaway"
)

const (
	// drillLasts is the default of --for: about how long a drill takes.
	drillLasts    = 25 * time.Second
	minDrillLasts = 5 * time.Second
	maxDrillLasts = time.Hour
)

// drillPlan holds the flags of drill.
type drillPlan struct {
	lasts time.Duration
	seed  uint64
}

func newDrillCommand(p *Program, settings *Settings) *cobra.Command {
	plan := &drillPlan{}
	cmd := &cobra.Command{
		Use:     "drill",
		Short:   "Rehearse an outage, and audit what becomes of the writes",
		GroupID: GroupCare,
		Long: "Rehearse an outage. botwired starts a daemon with an empty data directory and an upstream of its own, on\n" +
			"loopback. Clients write, read back and delete, while upstream times out, cuts connections, goes away,\n" +
			"throttles and lies, and the daemon is killed and started again. The audit says what they saw, and what has\n" +
			"become of every acknowledged write. Neither your daemon nor your upstream has a part in it.\n\n" +
			"Exit 0 if the books balance and nothing was wrong, 1 if anything was.",
		Example: "  botwired drill\n" +
			"  botwired drill --for 2m --seed 7 --json > audit.json",
		Args: NoArguments,
	}
	settings.takesNone(cmd) // drill starts its own daemon
	flags := cmd.Flags()
	flags.DurationVar(&plan.lasts, "for", drillLasts, "about how long it takes")
	flags.Uint64Var(&plan.seed, "seed", 0, "what the clients do, and in which order (default random)")
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if plan.lasts < minDrillLasts || plan.lasts > maxDrillLasts {
			return Usagef("--for = %s: expected from %s to %s", config.FormatDuration(plan.lasts), config.FormatDuration(minDrillLasts), config.FormatDuration(maxDrillLasts))
		}
		if !flags.Changed("seed") {
			plan.seed = rand.Uint64N(1 << 32)
		}
		audit, err := plan.run(cmd.Context(), p)
		if err != nil {
			return err
		}
		return reportDrill(p, audit, plan, *asJSON)
	}
	return cmd
}

// run runs the drill and shows its progress on a terminal.
func (d *drillPlan) run(ctx context.Context, p *Program) (*drill.Audit, error) {
	progress := func(string) {}
	if p.IsTerminal(p.Stderr) {
		progress = func(line string) { p.ShowLine(term.Printable(line)) }
		defer p.ShowLine("")
	}
	return throwaway.Run(ctx, d.seed, d.lasts, progress)
}
