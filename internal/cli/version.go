package cli

import (
	"github.com/spf13/cobra"

	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
)

func newVersionCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		GroupID: groupOther,
		Example: "  botwired version\n" +
			"  botwired version --json",
		Args: NoArguments,
	}
	settings.takesNone(cmd)
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		b := build.This()
		if *asJSON {
			return term.EncodeJSON(p.Stdout, b)
		}
		return b.Write(p.Stdout)
	}
	return cmd
}
