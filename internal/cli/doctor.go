package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/doctor"
	"github.com/botwired/botwired/internal/words"
)

func newDoctorCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: GroupCare,
		Short:   "Check everything around the daemon, and say what to do",
		Long: "Check everything around the daemon, with and without one that runs: that agents of this shell go through it,\n" +
			"the configuration, the address, the data directory and its disk, the way to upstream, the clock, the quota.\n" +
			"If a daemon answers, doctor examines its data directory and its upstream, whatever this shell's configuration\n" +
			"says. Under each finding that is not well, doctor prints a command or a setting to copy.\n\n" +
			"doctor writes nothing upstream, and shows neither values nor tokens. Each check ends within 15 s, and they\n" +
			"run side by side.\n\n" +
			"The exit code is 0 if all is well, 3 if there are warnings, and 1 if a check has failed.",
		Example: "  botwired doctor\n" +
			"  botwired doctor --json | jq '.checks[] | select(.result != \"ok\")'",
		Args: NoArguments,
	}
	settings.Takes(cmd, slices.Concat([]string{"data_dir", "upstream.url"}, engineSettings(), ClientSettings)...)
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o := doctor.Options{Sources: settings.sources(nil), Reader: io.Discard}
		if !*asJSON {
			o.Reader = p.Screen()
		}
		findings := doctor.Examine(cmd.Context(), o)
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		show := printFindings
		if *asJSON {
			show = printFindingsJSON
		}
		if err := show(p, findings); err != nil {
			return err
		}
		switch doctor.Worst(findings) {
		case doctor.Failed:
			return &term.Exit{Code: ExitError}
		case doctor.Warning:
			return &term.Exit{Code: ExitMissing}
		}
		return nil
	}
	return cmd
}

func printFindings(p *Program, findings []doctor.Finding) error {
	colours, widest := p.PaletteOf(p.Stdout), 0
	paint := map[doctor.Result]func(string) string{
		doctor.Failed: colours.Red, doctor.Warning: colours.Yellow, doctor.OK: colours.Green, doctor.NotApplicable: colours.Dim,
	}
	counts := make(map[doctor.Result]int)
	for _, f := range findings {
		widest = max(widest, len(f.Name))
		counts[f.Result]++
	}
	for _, f := range findings {
		word := strings.Replace(string(f.Result), "not applicable", "n/a", 1)
		text := fmt.Sprintf("%s  %-*s  %s\n", paint[f.Result](fmt.Sprintf("%-7s", word)), widest, f.Name, term.Printable(f.Text))
		if f.Remedy != "" {
			text += fmt.Sprintf("%*s  -> %s\n", len("warning")+2+widest, "", term.Printable(f.Remedy))
		}
		if _, err := fmt.Fprint(p.Stdout, text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.Stdout, "\n%d failed, %s, %d ok, %d not applicable\n",
		counts[doctor.Failed], words.Plural(counts[doctor.Warning], "warning"), counts[doctor.OK], counts[doctor.NotApplicable])
	return err
}

func printFindingsJSON(p *Program, findings []doctor.Finding) error {
	return term.EncodeJSON(p.Stdout, struct {
		Result doctor.Result    `json:"result"`
		Checks []doctor.Finding `json:"checks"`
	}{doctor.Worst(findings), findings})
}
