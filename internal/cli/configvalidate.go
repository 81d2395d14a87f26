package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

func newConfigValidateCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a configuration: every error, or all that differs from the defaults",
		Long: "Check the configuration as serve would read it, or with FILE as its file: every error with the setting, the\n" +
			"value, the line and the expectation. Of a valid one, validate shows what differs from the defaults, and\n" +
			"whether a running daemon takes over a change of that at SIGHUP or at a restart.\n\n" +
			"The exit code is 0 if the configuration is valid, and 1 if not.",
		Example: "  botwired config validate\n" +
			"  botwired config validate new.yaml && mv new.yaml config.yaml",
		Args: arguments(0, 1),
	}
	settings.Takes(cmd, AllSettings()...)
	HideSettings(cmd, "config")
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		src := settings.sources(nil)
		if len(args) > 0 {
			src.File = args[0]
		}
		loaded, faults := config.Check(src)
		show := printValidation
		switch {
		case *asJSON:
			show = printValidationJSON
		case len(faults) == 1:
			return faults[0]
		}
		if err := show(p.Stdout, loaded, faults); err != nil {
			return err
		}
		if len(faults) > 0 {
			return fmt.Errorf("the configuration is not valid: %s", words.Plural(len(faults), "error"))
		}
		return nil
	}
	return cmd
}

func printValidation(w io.Writer, loaded *config.Loaded, faults []*config.Error) error {
	if len(faults) > 0 {
		for _, fault := range faults {
			if _, err := fmt.Fprintln(w, term.Printable(fault.Error())); err != nil {
				return err
			}
		}
		return nil
	}
	from := loaded.File
	if from == "" {
		from = "no file"
	}
	changed := differing(loaded)
	facts := [][2]string{{"valid", from}}
	for _, warning := range loaded.Warnings {
		facts = append(facts, [2]string{"warning", warning})
	}
	if len(changed) == 0 {
		facts = append(facts, [2]string{"differs", "nothing: every setting has its default"})
	}
	if err := term.Facts(w, facts); err != nil || len(changed) == 0 {
		return err
	}
	rows := make([][]string, 0, len(changed))
	for _, v := range changed {
		rows = append(rows, []string{v.Name, orNone(v.Value), orNone(v.Default), v.Source.String(), takenOver(v.Name)})
	}
	fmt.Fprintln(w)
	return term.Table(w, []string{"SETTING", "VALUE", "DEFAULT", "SOURCE", "CHANGES AT"}, rows)
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

// differing returns the settings whose values are not their defaults.
func differing(loaded *config.Loaded) (out []config.Value) {
	for _, v := range loaded.Values {
		if v.Value != v.Default {
			out = append(out, v)
		}
	}
	return out
}

// takenOver returns when a running daemon applies a change of a setting.
func takenOver(setting string) string {
	all := config.Settings()
	if i := slices.IndexFunc(all, func(s config.Setting) bool { return s.Name == setting }); i >= 0 && all[i].Live {
		return "SIGHUP"
	}
	return "restart"
}

// validationJSON is the output of validate --json.
type validationJSON struct {
	Valid    bool            `json:"valid"`
	File     string          `json:"file"` // "" without a file
	Errors   []faultJSON     `json:"errors"`
	Differs  []differingJSON `json:"differs"`
	Warnings []string        `json:"warnings"`
}

type faultJSON struct {
	Setting  string `json:"setting"`
	Item     string `json:"item,omitempty"`
	Value    string `json:"value,omitempty"`
	Source   string `json:"source"`
	Line     int    `json:"line,omitempty"`
	Expected string `json:"expected"`
	Message  string `json:"message"`
}

type differingJSON struct {
	settingJSON
	Default   string `json:"default"`
	ChangesAt string `json:"changes_at"` // "SIGHUP" or "restart"
}

func printValidationJSON(w io.Writer, loaded *config.Loaded, faults []*config.Error) error {
	doc := validationJSON{
		Valid: len(faults) == 0, File: loaded.File,
		Errors: []faultJSON{}, Differs: []differingJSON{}, Warnings: append([]string{}, loaded.Warnings...),
	}
	for _, f := range faults {
		doc.Errors = append(doc.Errors, faultJSON{f.Setting, f.Item, f.Value, f.Source.String(), f.Source.Line, f.Expected, f.Error()})
	}
	if doc.Valid {
		for _, v := range differing(loaded) {
			doc.Differs = append(doc.Differs, differingJSON{newSettingJSON(v), v.Default, takenOver(v.Name)})
		}
	}
	return term.EncodeJSON(w, doc)
}
