package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli"
)

var writeReference = flag.Bool("reference", false, "write the reference in docs/commands.md")

const commandsPage = "../../docs/commands.md"

// docs/commands.md lists every command with its flags and settings, exactly as the code has them.
func TestCommandReference(t *testing.T) {
	page, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- reference -->\n", "<!-- /reference -->"
	before, rest, begins := strings.Cut(string(page), begin)
	got, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatal("docs/commands.md has no <!-- reference --> … <!-- /reference --> section")
	}
	want := commandReference()
	switch {
	case got == want:
	case *writeReference:
		if err := os.WriteFile(commandsPage, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("docs/commands.md is not what the commands are: run make reference")
	}
}

func commandReference() string {
	var b strings.Builder
	eachListed(newTree(), func(cmd *cobra.Command) {
		fmt.Fprintf(&b, "\n### `%s`\n\n%s:\n\n```text\n%s\n```\n", cmd.CommandPath(), cmd.Short, cmd.UseLine())
		own, settings := referenceFlags(cmd)
		if own.HasFlags() {
			b.WriteString("\n| flag | |\n|---|---|\n")
			own.VisitAll(func(f *pflag.Flag) { b.WriteString(flagRow(f)) })
		}
		if text := settingsRead(settings); text != "" && cmd.HasParent() {
			fmt.Fprintf(&b, "\n%s\n", text)
		} else if text != "" {
			b.WriteString("\nThe flag of a [setting](settings.md) may stand before the command that reads it.\n")
		}
	})
	return b.String() + "\n"
}

// eachListed visits the commands that the help lists, in its order.
func eachListed(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, group := range cli.GroupsOf(cmd) {
		for _, sub := range group.Commands {
			eachListed(sub, visit)
		}
	}
}

// referenceFlags returns all flags of a command except --help, including hidden ones.
func referenceFlags(cmd *cobra.Command) (own, settings *pflag.FlagSet) {
	own, settings = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	settings.SortFlags = false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Annotations[cli.SettingOf] != nil:
			settings.AddFlag(f)
		case f.Name != "help" && !f.Hidden:
			own.AddFlag(f)
		}
	})
	return own, settings
}

func flagRow(f *pflag.Flag) string {
	kind, usage := pflag.UnquoteUsage(f)
	if kind != "" {
		kind = " " + strings.ToUpper(kind)
	}
	if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(usage, "(default ") {
		usage += " (default " + f.DefValue + ")"
	}
	return fmt.Sprintf("| `--%s%s` | %s |\n", f.Name, kind, strings.ReplaceAll(usage, "|", `\|`))
}

// settingsRead formats which settings a command reads.
func settingsRead(flags *pflag.FlagSet) string {
	var names []string
	for _, s := range config.Settings() {
		if flags.Lookup(s.Flag()) != nil {
			names = append(names, "`"+s.Name+"`")
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) == len(config.Settings()):
		return "It reads all [settings](settings.md)."
	case slices.Equal(names, []string{"`listen`", "`auth.token_file`"}):
		return "It finds the daemon by `listen` and `auth.token_file`."
	}
	last := len(names) - 1
	return "It reads the settings " + strings.Join(names[:last], ", ") + " and " + names[last] + "."
}
