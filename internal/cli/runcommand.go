package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
)

// UnusedFlag is the flag with which "botwired run" and "botwired mcp" start "botwired serve".
const UnusedFlag = "until-unused"

func newRunCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run [flags] -- COMMAND [ARGUMENT...]",
		Short:   "Run a command with a daemon beside it",
		GroupID: GroupDaily,
		Long: "Run a command, such as an agent, whose BotWire SDK uses the daemon: run sets BOTWIRE_URL for it, and\n" +
			"keeps loopback out of its proxy (NO_PROXY). If no daemon of this account answers at the address, run starts one with\n" +
			"its own flags and settings, whose log is the file run.log in data_dir. When the command has ended, run\n" +
			"has that daemon flush for up to flush.drain_timeout, and says what is still pending: it stays on the\n" +
			"disk, and goes to BotWire with the next start. A daemon that was there before goes on, and so does one that\n" +
			"another botwired run or botwired mcp with the same data_dir uses: it ends after the last of them.\n\n" +
			"Signals are passed on to the command. The exit code is the command's: 128 and the number of the signal\n" +
			"that has ended it, 127 if there is no such command, 126 if it cannot be run.",
		Example: "  botwired run -- python agent.py\n" +
			"  botwired run --upstream embedded --data-dir trial -- python agent.py",
		Args: func(cmd *cobra.Command, args []string) error {
			return arguments(1, 1)(cmd, args[:min(len(args), 1)]) // the command's own arguments may be anything
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runBeside(cmd.Context(), settings, args)
		},
	}
	settings.Takes(cmd, AllSettings()...) // it passes them to the daemon that it starts
	HideSettings(cmd, append([]string{"config", "data_dir", "upstream.url", "flush.drain_timeout", "log.level"}, ClientSettings...)...)
	cmd.Flags().SetInterspersed(false) // the flags after COMMAND are its own
	return cmd
}

func (p *Program) runBeside(ctx context.Context, settings *Settings, args []string) error {
	use, err := p.attaches("botwired run", settings)
	if err != nil {
		return err
	}
	use.Waiting = func(reason string) { p.say("botwired: waiting for the daemon: " + term.Printable(reason) + "\n") }
	use.Elsewhere = p.tellOfDaemon
	return attach.Run(ctx, use, args)
}

// attaches returns the options for using a daemon. name is the command's name in messages.
func (p *Program) attaches(name string, settings *Settings) (attach.Options, error) {
	loaded, err := settings.Load(nil)
	return attach.Options{
		Name: name, Loaded: loaded, Version: build.Version(), Serve: settings.daemonArguments(), Terminal: &p.Terminal, Ignored: p.Ignored,
	}, err
}

func (f *Settings) daemonArguments() []string {
	return append([]string{"serve", "--" + UnusedFlag}, f.settingArguments()...)
}

func (f *Settings) settingArguments() (args []string) {
	if f.file != "" {
		args = append(args, "--config="+f.file)
	}
	for _, s := range config.Settings() {
		if value, ok := f.values[s.Name]; ok {
			args = append(args, "--"+s.Flag()+"="+value)
		}
	}
	return args
}
