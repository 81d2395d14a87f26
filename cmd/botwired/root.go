package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/botwired/botwired/config"
)

const about = `botwired runs beside a process that hosts AI agents and speaks BotWire's memory
API on loopback. It answers reads from memory. It makes writes durable on the
local disk, acknowledges them, and carries them to BotWire in the background.

You can give every setting as a flag, in the environment (BOTWIRED_FLUSH_LINGER
for --flush-linger) or in a YAML file; "botwired config" shows the values in
force and their sources.`

func newRootCommand(p *process) *cobra.Command {
	settings := &settingFlags{process: p, values: map[string]string{}}
	root := &cobra.Command{
		Use:                "botwired",
		Short:              "BotWire's memory API, local and durable",
		Long:               about,
		Args:               noArguments,
		RunE:               func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:       true,
		SilenceErrors:      true,
		DisableSuggestions: true, // they take several lines; noArguments has its own
	}
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(p.flagError)
	root.PersistentFlags().StringVar(&settings.file, "config", "", "configuration file in YAML (environment: "+config.EnvFile+")")
	addSettings(root.PersistentFlags(), settings)
	setHelp(root)
	root.AddCommand(
		newServeCommand(p, settings),
		newRunCommand(p, settings),
		newStatusCommand(settings),
		newFlushCommand(p, settings),
		newPendingCommand(p, settings),
		newPrefetchCommand(p, settings),
		newDeadLettersCommand(p, settings),
		newReceiptCommand(settings),
		newRestoreCommand(p, settings),
		newForgetCommand(p, settings),
		newGetCommand(p, settings),
		newSetCommand(p, settings),
		newDeleteCommand(p, settings),
		newListCommand(settings),
		newExportEntriesCommand(p, settings),
		newImportCommand(p, settings),
		newSelfhostCommand(p, settings),
		newRecoverCommand(p, settings),
		newBenchCommand(p, settings),
		newConfigCommand(p, settings),
		newVersionCommand(p),
	)
	setCompletion(root)
	root.SetGlobalNormalizationFunc(flagSpelling())
	return root
}

// addSettings adds a flag for every setting.
func addSettings(flags *pflag.FlagSet, into *settingFlags) {
	for _, s := range config.Settings() {
		usage := strings.ReplaceAll(s.Doc, "`", "")
		if s.Alias != "" {
			usage += " (also --" + s.Alias + ")"
		}
		shown := s.Default
		switch {
		case s.Documented == "none":
			shown = ""
		case s.Name == "data_dir":
			shown = config.DefaultDataDir(into.process.environ)
		case shown == "":
			shown = strings.ReplaceAll(s.Documented, "`", "")
		}
		flags.AddFlag(&pflag.Flag{
			Name:     s.Flag(),
			Usage:    usage,
			Value:    &settingValue{name: s.Name, kind: s.Kind(), into: into.values},
			DefValue: shown,
		})
	}
}

// settingValue passes a flag's text on as it is: config judges it, together with the
// values of the other sources.
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

// flagSpelling accepts a setting's flag with dots and underscores, too, and its short
// form.
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

func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}
