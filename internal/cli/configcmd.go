package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/words"
)

func newConfigCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Show every setting in force and its source",
		GroupID: GroupCare,
		Example: "  botwired config\n" +
			"  botwired config --namespace my-agent\n" +
			"  botwired config --config botwired.yaml --flush-linger 1s",
		Long: "Show every setting in force and its source, or with --namespace those of one namespace, with the entry of\n" +
			"namespaces that each comes from. If a setting is wrong, config says which, as serve would, and exits with 1.\n" +
			"init makes a configuration file, and validate checks one before a start or a SIGHUP.",
		Args: NoArguments,
	}
	settings.Takes(cmd, AllSettings()...)
	cmd.AddCommand(newConfigInitCommand(p, settings), newConfigValidateCommand(p, settings))
	namespace := namespaceFlag(cmd, namespaceSettingsUsage)
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		loaded, err := settings.Load(nil)
		if err != nil {
			return err
		}
		values := loaded.Values
		if *namespace != "" {
			if values, err = valuesFor(loaded, *namespace); err != nil {
				return err
			}
		}
		rows := make([][]string, 0, len(values))
		fields := make([]settingJSON, 0, len(values))
		for _, v := range values {
			rows = append(rows, []string{v.Name, orNone(v.Value), v.Source.String()})
			fields = append(fields, settingJSON{v.Name, v.Value, v.Source.String()})
		}
		if *asJSON {
			return term.EncodeJSON(p.Stdout, map[string][]settingJSON{"settings": fields})
		}
		return term.Table(p.Screen(), []string{"SETTING", "VALUE", "SOURCE"}, rows)
	}
	return cmd
}

const namespaceSettingsUsage = "show the settings of this namespace, and where each comes from"

func valuesFor(loaded *config.Loaded, namespace string) ([]config.Value, error) {
	if !config.IsNamespace(namespace) {
		return nil, fmt.Errorf("--namespace %q: expected the name of a namespace: 1 to 64 letters, digits, _ and -", namespace)
	}
	return loaded.For(namespace), nil
}

type settingJSON struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// configFileMode keeps other users out: a configuration file may hold headers with secrets.
const configFileMode = 0o600

func newConfigInitCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a configuration file with every setting, commented out",
		Long: "Write a configuration file with every setting, commented out: its meaning, its default and the values\n" +
			"that it takes. Without FILE, or with -, init prints it. init replaces no file, unless you say --force.",
		Example: "  botwired config init ~/.config/botwired/config.yaml\n" +
			"  botwired config init | less",
		Args: arguments(0, 1),
	}
	settings.takesNone(cmd)
	force := cmd.Flags().Bool("force", false, "replace the file if it exists")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		sample := config.Sample(p.Environ)
		if len(args) == 0 || args[0] == "-" {
			_, err := io.WriteString(p.Stdout, sample)
			return err
		}
		return writeSample(p, args[0], sample, *force)
	}
	return cmd
}

func writeSample(p *Program, name, sample string, force bool) error {
	name, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	if err := writeNew(name, sample, force); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists: --force replaces it, and another FILE leaves it", name)
		}
		return words.Unusable(err)
	}
	use := "every command reads it from there"
	if name != config.DefaultFile(p.Environ) {
		use = fmt.Sprintf("export %s=%s", config.EnvFile, attach.ShellWord(name))
	}
	return term.Facts(p.Stdout, [][2]string{
		{"written", name},
		{"use", use},
		{"check", "botwired config validate " + attach.ShellWord(name)},
	})
}

// writeNew writes a file, and creates its folder if necessary. Unless replace is set, it fails if the
// file exists.
func writeNew(name, content string, replace bool) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !replace {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(name, flags, configFileMode)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, content)
	return errors.Join(err, f.Close())
}

func newConfigValidateCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a configuration: every error, or all that differs from the defaults",
		Long: "Check the configuration as serve would read it, or with FILE as its file: every error with the setting, the\n" +
			"value, the line and the expectation. Of a valid one, validate shows what differs from the defaults, and\n" +
			"whether a running daemon takes over a change of that at SIGHUP or at a restart.\n\n" +
			"With --namespace, it shows the settings of that namespace instead, and the entry of namespaces that each comes\n" +
			"from.\n\n" +
			"Run it as the daemon's user: it reads the files of the token and of the keys, too.\n\n" +
			"The exit code is 0 if the configuration is valid, and 1 if not.",
		Example: "  botwired config validate\n" +
			"  botwired config validate new.yaml --namespace my-agent\n" +
			"  botwired config validate new.yaml && mv new.yaml config.yaml",
		Args: arguments(0, 1),
	}
	settings.Takes(cmd, AllSettings()...)
	HideSettings(cmd, "config")
	namespace := namespaceFlag(cmd, namespaceSettingsUsage)
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
			if *namespace == "" {
				return printDiffering(p.Stdout, loaded)
			}
			values, err := valuesFor(loaded, *namespace)
			if err != nil {
				return err
			}
			return printNamespace(p.Stdout, loaded, values)
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
	facts := validFacts(loaded)
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

func validFacts(loaded *config.Loaded) [][2]string {
	facts := [][2]string{{"valid", cmp.Or(loaded.File, "no file")}}
	for _, warning := range loaded.Warnings {
		facts = append(facts, [2]string{"warning", warning})
	}
	return facts
}

func printNamespace(w io.Writer, loaded *config.Loaded, values []config.Value) error {
	if err := term.Facts(w, validFacts(loaded)); err != nil {
		return err
	}
	rows := make([][]string, 0, len(values))
	for _, v := range values {
		rows = append(rows, []string{v.Name, orNone(v.Value), v.Source.String()})
	}
	fmt.Fprintln(w)
	return term.Table(w, []string{"SETTING", "VALUE", "SOURCE"}, rows)
}

func orNone(value string) string { return cmp.Or(value, "none") }
