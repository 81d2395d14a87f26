package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/botwired/botwired/config"
)

// ClientSettings are the settings with which a command finds the running daemon.
var ClientSettings = []string{"listen", "auth.token_file"}

// SettingOf is the annotation of a setting's flag, and of a command that has declared its settings.
const SettingOf = "setting"

// Takes gives a command the flags of the settings that it reads, and --config.
func (f *Settings) Takes(cmd *cobra.Command, names ...string) {
	f.takesNone(cmd)
	flags := cmd.Flags()
	flags.Var((*configFile)(&f.file), "config", "configuration `file` in YAML (environment: "+config.EnvFile+")")
	flags.Lookup("config").Annotations = map[string][]string{SettingOf: {"config"}}
	for _, s := range config.Settings() {
		if slices.Contains(names, s.Name) {
			flags.AddFlag(f.flag(s))
		}
	}
}

// takesNone declares that a command needs no configuration.
func (f *Settings) takesNone(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[SettingOf] = ""
}

// makeClients gives ClientSettings to the commands that have declared no settings.
func (f *Settings) makeClients(root *cobra.Command) {
	EachCommand(root, func(cmd *cobra.Command) {
		if _, declared := cmd.Annotations[SettingOf]; !declared && cmd.Runnable() {
			f.Takes(cmd, ClientSettings...)
			cmd.Flags().Lookup("listen").Usage = "address at which the daemon listens, or unix:///path"
			cmd.Flags().Lookup("auth-token-file").Usage = "file that holds the token which the daemon wants"
		}
	})
}

// AllSettings returns the names of all settings.
func AllSettings() []string {
	var names []string
	for _, s := range config.Settings() {
		names = append(names, s.Name)
	}
	return names
}

// engineSettings returns the settings of single engines: upstream.ENGINE.NAME.
func engineSettings() []string {
	return slices.DeleteFunc(AllSettings(), func(name string) bool {
		return !strings.HasPrefix(name, "upstream.") || strings.Count(name, ".") != 2
	})
}

// HideSettings hides the flags of all settings except some from a command's help.
func HideSettings(cmd *cobra.Command, except ...string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if setting := f.Annotations[SettingOf]; setting != nil {
			f.Hidden = !slices.Contains(except, setting[0])
		}
	})
}

func (f *Settings) flag(s config.Setting) *pflag.Flag {
	usage := strings.ReplaceAll(s.Doc, "`", "")
	if s.Alias != "" {
		usage += " (also --" + s.Alias + ")"
	}
	shown := s.Default
	switch {
	case s.Documented == "none":
		shown = ""
	case s.Name == "data_dir":
		shown = config.DefaultDataDir(f.process.Environ)
	case shown == "":
		shown = strings.ReplaceAll(s.Documented, "`", "")
	}
	return &pflag.Flag{
		Name:        s.Flag(),
		Usage:       usage,
		Value:       &settingValue{name: s.Name, kind: s.Kind(), into: f.values},
		DefValue:    shown,
		Annotations: map[string][]string{SettingOf: {s.Name}},
	}
}

// configFile is the value of --config.
type configFile string

func (f *configFile) String() string { return string(*f) }
func (*configFile) Type() string     { return "path" }

func (f *configFile) Set(name string) error {
	if name == "" {
		return errors.New("expected the path of a file")
	}
	*f = configFile(name)
	return nil
}

// settingValue stores a flag's text unchanged: config validates it together with the values from other
// sources.
type settingValue struct {
	name, kind string
	into       map[string]string
}

func (v *settingValue) String() string { return v.into[v.name] }
func (v *settingValue) Type() string   { return v.kind }

func (v *settingValue) Set(text string) error {
	v.into[v.name] = text
	return nil
}

// flagSpelling also accepts a setting's flag with dots or underscores, and its short form.
func flagSpelling() func(*pflag.FlagSet, string) pflag.NormalizedName {
	aliases := map[string]string{}
	for _, s := range config.Settings() {
		if s.Alias != "" {
			aliases[s.Alias] = s.Flag()
		}
	}
	return func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		name = config.FlagName(name)
		if flag, ok := aliases[name]; ok {
			name = flag
		}
		return pflag.NormalizedName(name)
	}
}
