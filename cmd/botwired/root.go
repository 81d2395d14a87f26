package main

import (
	"errors"
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
	root.AddCommand(
		newServeCommand(p, settings),
		newStatusCommand(settings),
		newFlushCommand(p, settings),
		newPendingCommand(settings),
		newDeadLettersCommand(p, settings),
		newGetCommand(p, settings),
		newSetCommand(p, settings),
		newDeleteCommand(p, settings),
		newListCommand(settings),
		newSelfhostCommand(p, settings),
		newRecoverCommand(p, settings),
		newBenchCommand(p, settings),
		newConfigCommand(p, settings),
		newVersionCommand(p),
	)
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
		if s.Documented == "none" {
			shown = ""
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

func (p *process) flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return &usageError{err}
	}
	flag := "--" + unknown.GetSpecifiedName()
	value := ""
	for _, arg := range p.args {
		if given, ok := strings.CutPrefix(arg, flag+"="); ok {
			value = given
		}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	return &usageError{config.UnknownFlag(flag, value, known)}
}

// noArguments refuses arguments. An unknown command arrives here as an argument of the
// command above it.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return usagef("unexpected argument %q: expected %q", args[0], cmd.UseLine())
	}
	var known []string
	for _, sub := range cmd.Commands() {
		known = append(known, sub.Name())
	}
	hint := ""
	if near := config.Suggest(args[0], known); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return usagef("unknown command %q: expected one of those that %q lists%s", args[0], cmd.CommandPath()+" --help", hint)
}

// arguments accepts from least to most arguments. The first ones, up to least, must not
// be empty.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("%s: expected %q", plural(len(args), "argument"), cmd.UseLine())
		}
		for i, arg := range args[:least] {
			if arg == "" {
				return usagef("argument %d is empty: expected %q", i+1, cmd.UseLine())
			}
		}
		return nil
	}
}

func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}
