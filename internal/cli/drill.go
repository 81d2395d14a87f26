package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/drill"
	"github.com/botwired/botwired/internal/drill/throwaway"
	"github.com/botwired/botwired/internal/words"
)

const (
	// drillLasts is the default of --for: about how long a drill takes.
	drillLasts    = 25 * time.Second
	minDrillLasts = 5 * time.Second
	maxDrillLasts = time.Hour
)

func newDrillCommand(p *Program, settings *Settings) *cobra.Command {
	var lasts time.Duration
	var seed uint64
	cmd := &cobra.Command{
		Use:     "drill",
		Short:   "Rehearse an outage, and audit what becomes of the writes",
		GroupID: GroupCare,
		Long: "Rehearse an outage. botwired starts a daemon with an empty data directory and an upstream of its own, on\n" +
			"loopback. Clients write, read back and delete, while upstream times out, cuts connections, goes away,\n" +
			"throttles and lies, and the daemon is killed and started again. The audit says what they saw, and what has\n" +
			"become of every acknowledged write. Neither your daemon nor your upstream has a part in it.\n\n" +
			"Exit 0 if nothing was lost or wrong, 1 if anything was.",
		Example: "  botwired drill\n" +
			"  botwired drill --for 2m --seed 7 --json > audit.json",
		Args: NoArguments,
	}
	settings.takesNone(cmd) // drill starts its own daemon
	flags := cmd.Flags()
	flags.DurationVar(&lasts, "for", drillLasts, "about how long it takes")
	flags.Uint64Var(&seed, "seed", 0, "what the clients do, and in which order (default random)")
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if lasts < minDrillLasts || lasts > maxDrillLasts {
			return Usagef("--for = %s: expected from %s to %s", config.FormatDuration(lasts), config.FormatDuration(minDrillLasts), config.FormatDuration(maxDrillLasts))
		}
		if !flags.Changed("seed") {
			seed = rand.Uint64N(1 << 32)
		}
		audit, err := throwaway.Run(cmd.Context(), seed, lasts, p.ShowLine)
		p.ShowLine("")
		if err != nil {
			return err
		}
		return reportDrill(p, audit, lasts, *asJSON)
	}
	return cmd
}

func reportDrill(p *Program, a *drill.Audit, lasts time.Duration, asJSON bool) error {
	if asJSON {
		if err := term.EncodeJSON(p.Stdout, a); err != nil {
			return err
		}
	} else if err := printAudit(p.Stdout, a); err != nil {
		return err
	}
	if a.OK {
		return nil
	}
	return fmt.Errorf("the drill has found %s that must not be. Once more: botwired drill --seed %d --for %s",
		words.Plural(len(a.Findings), "thing"), a.Seed, config.FormatDuration(lasts))
}

// findingsShown limits the findings that are printed. The JSON has all.
const findingsShown = 20

func printAudit(w io.Writer, a *drill.Audit) error {
	fmt.Fprintf(w, "Drill of a throwaway daemon: %.1f s, seed %d\n\n", a.Seconds, a.Seed)
	var rows [][]string
	for _, p := range a.Phases {
		rows = append(rows, []string{p.Name, strconv.Itoa(p.Acknowledged), strconv.Itoa(p.Reads), strconv.Itoa(p.Pending), p.Upstream})
	}
	if err := term.Table(w, []string{"PHASE", "WRITES", "READS", "WAITING", "UPSTREAM"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	err := term.Facts(w, [][2]string{
		{"acknowledged", words.Plural(a.Acknowledged, "write")},
		{"lost", strconv.Itoa(a.Lost)},
		{"settled", fmt.Sprintf("%d, confirmed by upstream", a.Settled)},
		{"superseded", fmt.Sprintf("%d, by a later write to the same key", a.Superseded)},
		{"pending", strconv.Itoa(a.Pending)},
		{"dead", strconv.Itoa(a.Dead)},
		{"unanswered", fmt.Sprintf("%d when the daemon was killed: each may have been made or not", a.Unanswered)},
		{"upstream holds", fmt.Sprintf("%d of %s as acknowledged last", a.Compared-a.Different, words.Plural(a.Compared, "entry"))},
	})
	for i, f := range a.Findings[:min(len(a.Findings), findingsShown)] {
		text := fmt.Sprintf("%d. point %d of the contract, phase %s, %s/%s: %s", i+1, f.Contract, f.Phase, f.Namespace, f.Key, f.Text)
		_, err = fmt.Fprintf(w, "\n%s\n", term.Printable(text))
	}
	return err
}
