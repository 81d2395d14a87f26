package main

import (
	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
)

func newConfigCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force and where each comes from",
		Args:  noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		loaded, err := settings.load(nil)
		if err != nil {
			return err
		}
		if *asJSON {
			return encodeJSON(p.stdout, settingsAsJSON(loaded))
		}
		rows := make([][]string, 0, len(loaded.Values))
		for _, v := range loaded.Values {
			value := v.Value
			if value == "" {
				value = "none"
			}
			rows = append(rows, []string{v.Name, value, v.Origin.String()})
		}
		return printTable(p.stdout, []string{"SETTING", "VALUE", "ORIGIN"}, rows)
	}
	return cmd
}

type settingJSON struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func settingsAsJSON(loaded *config.Loaded) map[string][]settingJSON {
	out := make([]settingJSON, 0, len(loaded.Values))
	for _, v := range loaded.Values {
		out = append(out, settingJSON{Name: v.Name, Value: v.Value, Origin: v.Origin.String()})
	}
	return map[string][]settingJSON{"settings": out}
}
