package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newHelpCommand fails for a command that does not exist.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil {
				return &usageError{err}
			}
			if err := noArguments(target, rest); err != nil {
				return err
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}

// setHelp makes the help of a command show, of the flags for settings, those that matter
// to it.
func setHelp(root *cobra.Command) {
	root.SetHelpCommand(newHelpCommand())
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "Global Flags:", "Settings:", 1))
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		flags, all := settingsFor(cmd)
		if all {
			show(cmd, args)
			return
		}
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = !slices.Contains(flags, f.Name) })
		if cmd.Name() == "selfhost" {
			useSelfhostDefaults(cmd.InheritedFlags())
		}
		show(cmd, args)
		if len(flags) > 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "\n\"botwired serve --help\" shows the flags of all settings.")
		}
	})
}

// setCompletion makes cobra's own command fail for a shell that it does not know, and for arguments.
func setCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.Args = noArguments
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range cmd.Commands() {
			shell.Args = noArguments
		}
	}
}

// settingsFor returns the flags for settings that matter to a command, or says that all of
// them do.
func settingsFor(cmd *cobra.Command) (flags []string, all bool) {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	client := []string{"config", "listen", "auth-token-file"}
	switch cmd.Name() {
	case "botwired", "serve":
		return nil, true
	case "version", "completion", "help":
		return nil, false
	case "config":
		return []string{"config"}, false
	case "run":
		return append(client, "data-dir", "upstream-url", "flush-drain-timeout", "log-level"), false
	case "recover":
		return []string{"config", "data-dir"}, false
	case "selfhost":
		return append(client, "data-dir", "allowed-hosts", "allowed-origins", "embedded-latency", "log-level", "log-format"), false
	case "bench":
		return append(client, "upstream-url", "upstream-timeout", "upstream-headers"), false
	}
	return client, false
}

// useSelfhostDefaults has the flags' help say what the settings are to selfhost.
func useSelfhostDefaults(flags *pflag.FlagSet) {
	if f := flags.Lookup("data-dir"); f != nil {
		f.Usage = "directory of the database; --db names a file elsewhere"
	}
	for name, value := range selfhostDefaults() {
		if f := flags.Lookup(name); f != nil {
			f.DefValue = value
		}
	}
}
