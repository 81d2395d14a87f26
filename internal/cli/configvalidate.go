package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/words"
)

func newConfigValidateCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a configuration: every error, or all that differs from the defaults",
		Long: "Check the configuration as serve would read it, or with FILE as its file: every error with the setting, the\n" +
			"value, the line and the expectation. Of a valid one, validate shows what differs from the defaults, and\n" +
			"whether a running daemon takes over a change of that at SIGHUP or at a restart.\n\n" +
			"Run it as the daemon's user: it reads the files of the token and of the keys, too.\n\n" +
			"The exit code is 0 if the configuration is valid, and 1 if not.",
		Example: "  botwired config validate\n" +
			"  botwired config validate new.yaml && mv new.yaml config.yaml",
		Args: arguments(0, 1),
	}
	settings.Takes(cmd, AllSettings()...)
	HideSettings(cmd, "config")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		src := settings.sources(nil)
		if len(args) > 0 {
			src.File = args[0]
		}
		loaded, found := config.Check(src)
		faults := make([]error, 0, len(found)+1)
		for _, fault := range found {
			faults = append(faults, fault)
		}
		if _, err := engines.Keys(&loaded.Config); err != nil {
			faults = append(faults, err)
		}
		switch len(faults) {
		case 0:
			return printDiffering(p.Stdout, loaded)
		case 1:
			return faults[0]
		}
		for _, fault := range faults {
			if _, err := fmt.Fprintln(p.Stdout, term.Printable(fault.Error())); err != nil {
				return err
			}
		}
		return fmt.Errorf("the configuration is not valid: %s", words.Plural(len(faults), "error"))
	}
	return cmd
}

// printDiffering prints the settings of a valid configuration whose values are not their defaults, and
// when a running daemon applies a change of each.
func printDiffering(w io.Writer, loaded *config.Loaded) error {
	facts := [][2]string{{"valid", cmp.Or(loaded.File, "no file")}}
	for _, warning := range loaded.Warnings {
		facts = append(facts, [2]string{"warning", warning})
	}
	var rows [][]string
	for i, s := range config.Settings() {
		v, changes := loaded.Values[i], "restart"
		if s.Live {
			changes = "SIGHUP"
		}
		if v.Value != v.Default {
			rows = append(rows, []string{v.Name, orNone(v.Value), orNone(v.Default), v.Source.String(), changes})
		}
	}
	if len(rows) == 0 {
		facts = append(facts, [2]string{"differs", "nothing: every setting has its default"})
	}
	if err := term.Facts(w, facts); err != nil || len(rows) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return term.Table(w, []string{"SETTING", "VALUE", "DEFAULT", "SOURCE", "CHANGES AT"}, rows)
}

func orNone(value string) string { return cmp.Or(value, "none") }
