package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
)

// ExitCodesName is the help topic about exit codes. It is not a command.
const ExitCodesName = "exit-codes"

// setHelpCommand makes cobra's help command fail for an unknown command, and know the exit codes.
func setHelpCommand(root *cobra.Command, settings *Settings) {
	root.SetHelpCommandGroupID(groupOther)
	root.InitDefaultHelpCmd()
	cmd, _, _ := root.Find([]string{"help"}) // it is there now
	cmd.Use = "help [COMMAND] [--all]"
	cmd.Short, cmd.Long = "Show the help of a command, or the exit codes", ""
	cmd.Example = "  botwired help dead-letters retry\n" +
		"  botwired help exit-codes"
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if slices.Equal(args, []string{ExitCodesName}) {
			_, err := fmt.Fprint(cmd.OutOrStdout(), ExitCodesTopic())
			return err
		}
		target, rest, err := cmd.Root().Find(args)
		if err != nil {
			return &UsageError{err}
		}
		if err := NoArguments(target, rest); err != nil {
			return err
		}
		if all, _ := cmd.Flags().GetBool(allName); all && ofHelp(target.Flags().Lookup(allName)) {
			_ = target.Flags().Set(allName, "true") // "true" always parses
		}
		return target.Help()
	}
	cmd.Flags().Bool(allName, false, "show all commands, or the flags of all settings")
	settings.takesNone(cmd)
}

func setHelp(root *cobra.Command, p *Program, settings *Settings) {
	setHelpCommand(root, settings)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		w := cmd.OutOrStdout()
		columns, _ := p.Size(w)
		all := cmd.Flags().Lookup(allName)
		h := helpPage{cmd, p.PaletteOf(w), min(columns, helpColumns), ofHelp(all) && all.Changed}
		fmt.Fprint(w, h.text())
	})
	EachCommand(root, func(cmd *cobra.Command) {
		if !cmd.Runnable() {
			return
		}
		cmd.Flags().BoolP("help", "h", false, "show this help")
		if hidesSettings(cmd) {
			cmd.Flags().Bool(allName, false, allUsage)
			cmd.Flags().Lookup(allName).Hidden = cmd.HasParent() // only the root's help lists it
			cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
				if cmd.HasParent() && cmd.Flags().Changed(allName) {
					return Usagef("--%s: expected --help beside it", allName)
				}
				return nil
			}
		}
	})
}

// allName is the flag that makes the help show everything. allUsage tells this flag from a command's
// own flag with the same name.
const (
	allName  = "all"
	allUsage = "with --help: show all commands, or the flags of all settings"
)

func ofHelp(f *pflag.Flag) bool { return f != nil && f.Usage == allUsage }

func hidesSettings(cmd *cobra.Command) (hides bool) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { hides = hides || f.Hidden && f.Annotations[SettingOf] != nil })
	return hides
}

var completionPlaces = map[string]string{
	"bash": "Put it into the file ~/.local/share/bash-completion/completions/botwired, for which bash needs the package " +
		"bash-completion, and open a new shell.",
	"zsh": "Put it into a file _botwired in a directory of $fpath, such as ${fpath[1]}, and open a new shell. The file ~/.zshrc " +
		"has to call compinit.",
	"fish":       "Put it into the file ~/.config/fish/completions/botwired.fish, and open a new shell.",
	"powershell": "To have it in every session, add the line \"botwired completion powershell | Out-String | Invoke-Expression\" to $PROFILE.",
}

// setCompletion makes cobra's completion command fail for an unknown shell and for extra arguments.
func setCompletion(root *cobra.Command, settings *Settings) {
	root.SetCompletionCommandGroupID(groupOther)
	root.InitDefaultCompletionCmd()
	cmd, _, _ := root.Find([]string{"completion"}) // it is there now
	cmd.Short = "Print the script that completes commands in a shell"
	cmd.Long = "Print the script by which a shell completes botwired's commands, flags, namespaces and keys. The help of\n" +
		"each shell says where the script goes."
	cmd.Example = "  source <(botwired completion bash)\n" +
		"  botwired completion fish > ~/.config/fish/completions/botwired.fish"
	cmd.Args = NoArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	settings.takesNone(cmd)
	for _, shell := range cmd.Commands() {
		shell.Args = NoArguments
		shell.Short = "Print the script for " + shell.Name()
		shell.Long = shell.Short + ". " + completionPlaces[shell.Name()]
		shell.Example = fmt.Sprintf("  botwired completion %s > botwired.%[1]s\n  botwired completion %[1]s --no-descriptions > botwired.%[1]s", shell.Name())
		settings.takesNone(shell)
	}
}

// EachCommand visits a command and all commands below it.
func EachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		EachCommand(sub, visit)
	}
}

// helpColumns limits the width of the help: longer lines are hard to read.
const helpColumns = 100

type helpPage struct {
	cmd     *cobra.Command
	palette term.Palette
	columns int
	all     bool
}

func (h *helpPage) text() string {
	var b strings.Builder
	b.WriteString(term.WrapParagraphs(cmp.Or(h.cmd.Long, h.cmd.Short+"."), h.columns))
	h.section(&b, "Usage", h.usage())
	h.section(&b, "Examples", h.cmd.Example)
	groups := GroupsOf(h.cmd)
	if !h.cmd.HasParent() && !h.all {
		groups = []Group{{"Every day", commandsOf(h.cmd, EveryDay)}}
	}
	for _, group := range groups {
		h.section(&b, group.title, h.listing(group.Commands))
	}
	own, settings := FlagsOf(h.cmd, h.all && h.cmd.HasParent())
	h.section(&b, "Flags", own.FlagUsagesWrapped(h.columns))
	h.section(&b, "Settings", settings.FlagUsagesWrapped(h.columns))
	switch {
	case !h.cmd.HasParent() && !h.all:
		b.WriteString("\n\"botwired --help --all\" shows all commands,\nand \"botwired COMMAND --help\" more of one.\n")
	case hidesSettings(h.cmd) && h.cmd.HasParent() && !h.all:
		fmt.Fprintf(&b, "\n\"%s --help --all\" shows the flags of all settings.\n", h.cmd.CommandPath())
	case h.cmd.HasAvailableSubCommands():
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" shows more of a command.\n", h.cmd.CommandPath())
	}
	return b.String()
}

func (h *helpPage) usage() string {
	text := "  " + h.cmd.UseLine()
	if h.cmd.HasAvailableSubCommands() {
		text += "\n  " + h.cmd.CommandPath() + " COMMAND"
	}
	return text
}

func (h *helpPage) section(b *strings.Builder, title, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	fmt.Fprintf(b, "\n%s\n%s\n", h.palette.Bold(title+":"), strings.TrimRight(text, "\n"))
}

func (h *helpPage) listing(commands []*cobra.Command) string {
	longest := 0
	for _, cmd := range h.cmd.Commands() {
		if IsShown(cmd) {
			longest = max(longest, len(cmd.Name()))
		}
	}
	var b strings.Builder
	for _, cmd := range commands {
		short := term.Wrap(cmd.Short, max(h.columns-longest-4, 20))
		short = strings.ReplaceAll(short, "\n", "\n"+strings.Repeat(" ", longest+4))
		fmt.Fprintf(&b, "  %-*s  %s\n", longest, cmd.Name(), short)
	}
	return b.String()
}

// IsShown reports whether the help lists a command.
func IsShown(cmd *cobra.Command) bool {
	return cmd.IsAvailableCommand() || cmd.Name() == "help" // cobra hides it
}

// Group is a group of commands with a title in the help.
type Group struct {
	title    string
	Commands []*cobra.Command
}

// GroupsOf returns a command's subcommands in their groups, without the hidden ones.
func GroupsOf(cmd *cobra.Command) (groups []Group) {
	titles := append(cmd.Groups(), &cobra.Group{Title: "Commands"})
	for _, group := range titles {
		listed := Group{title: group.Title}
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group.ID && IsShown(sub) {
				listed.Commands = append(listed.Commands, sub)
			}
		}
		if len(listed.Commands) > 0 {
			groups = append(groups, listed)
		}
	}
	return groups
}

func commandsOf(cmd *cobra.Command, names []string) (found []*cobra.Command) {
	for _, name := range names {
		if sub, _, err := cmd.Find([]string{name}); err == nil {
			found = append(found, sub)
		}
	}
	return found
}

// FlagsOf returns the flags that the help shows: the command's own, and those of settings. all adds the
// hidden settings.
func FlagsOf(cmd *cobra.Command, all bool) (own, settings *pflag.FlagSet) {
	own, settings = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	settings.SortFlags = false
	cmd.Flags().SortFlags = false // the settings keep the order of their table
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch isSetting := f.Annotations[SettingOf] != nil; {
		case isSetting && (all || !f.Hidden):
			shown := *f
			shown.Hidden = false
			settings.AddFlag(&shown)
		case !isSetting && !f.Hidden:
			own.AddFlag(f)
		}
	})
	return own, settings
}

// ExitMissing is the exit code of a command that has done its work, but found that something is missing
// and needs a user's attention.
const ExitMissing = 3

// ExitCodes returns all exit codes, for the help, the manual pages and docs/commands.md.
func ExitCodes() [][2]string {
	return [][2]string{
		{strconv.Itoa(ExitOK), "the command has done what it was asked for"},
		{strconv.Itoa(ExitError), "it failed, or a setting is wrong: standard error says why"},
		{strconv.Itoa(ExitUsage), "botwired does not understand the command line"},
		{strconv.Itoa(ExitMissing), "`recover`, `export`: something is or may be missing; `doctor`: warnings"},
		{strconv.Itoa(attach.ExitNotRun), "`run`: the command is there and cannot be run"},
		{strconv.Itoa(attach.ExitNotFound), "`run`: there is no such command"},
		{fmt.Sprintf("%d + N", attach.ExitSignal), "`run`: signal N ended the command"},
		{"any other", "`run`: the command's own"},
	}
}

// ExitCodesTopic returns the text of "botwired help exit-codes".
func ExitCodesTopic() string {
	var b strings.Builder
	b.WriteString("The exit codes of botwired's commands.\n\n")
	for _, code := range ExitCodes() {
		fmt.Fprintf(&b, "  %-9s  %s\n", code[0], strings.ReplaceAll(code[1], "`", ""))
	}
	return b.String()
}
