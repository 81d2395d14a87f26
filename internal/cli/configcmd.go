package cli

import (
	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli/term"
)

func newConfigCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Show every setting in force and its source",
		GroupID: GroupCare,
		Example: "  botwired config\n" +
			"  botwired config --config botwired.yaml --flush-linger 1s",
		Long: "Show every setting in force and its source. If a setting is wrong, config says which, as serve would, and\n" +
			"exits with 1. init makes a configuration file, and validate checks one before a start or a SIGHUP.",
		Args: NoArguments,
	}
	settings.Takes(cmd, AllSettings()...)
	cmd.AddCommand(newConfigInitCommand(p, settings), newConfigValidateCommand(p, settings))
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		loaded, err := settings.Load(nil)
		if err != nil {
			return err
		}
		if *asJSON {
			return term.EncodeJSON(p.Stdout, settingsAsJSON(loaded))
		}
		rows := make([][]string, 0, len(loaded.Values))
		for _, v := range loaded.Values {
			rows = append(rows, []string{v.Name, orNone(v.Value), v.Source.String()})
		}
		return term.Table(p.Screen(), []string{"SETTING", "VALUE", "SOURCE"}, rows)
	}
	return cmd
}

type settingJSON struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func settingsAsJSON(loaded *config.Loaded) map[string][]settingJSON {
	out := make([]settingJSON, 0, len(loaded.Values))
	for _, v := range loaded.Values {
		out = append(out, settingJSON{v.Name, v.Value, v.Source.String()})
	}
	return map[string][]settingJSON{"settings": out}
}
