package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
)

const about = `botwired runs beside a process that hosts AI agents and speaks BotWire's memory
API on loopback. It answers reads from memory. It makes writes durable on the
local disk, acknowledges them, and carries them to BotWire in the background.

Begin with "botwired serve" in one terminal and "botwired status" in another.`

const rootExamples = `  botwired run -- python agent.py                       # a daemon beside it
  botwired serve --upstream embedded --data-dir trial   # without a network`

// EveryDay lists the commands that the help shows by default.
var EveryDay = []string{"run", "serve", "status", "get", "set", "list", "history", "undo", "doctor", "mcp"}

// The groups of commands in the help with --all.
const (
	GroupDaily    = "daily"
	groupMemory   = "memory"
	GroupCare     = "care"
	GroupServices = "services"
	groupOther    = "other"
)

// CommandGroups returns the groups of commands, in the order of the help.
func CommandGroups() []*cobra.Group {
	return []*cobra.Group{
		{ID: GroupDaily, Title: "The daemon"},
		{ID: groupMemory, Title: "Memory"},
		{ID: GroupCare, Title: "Care"},
		{ID: GroupServices, Title: "Services"},
		{ID: groupOther, Title: "Other"},
	}
}

// NewRoot builds the tree of commands. A command's constructor declares what the help, the
// manual page and the completion show of it:
//
//   - GroupID, for a command of the root: one of the groups above;
//   - Example: two lines or more, each indented by two spaces and a command line that works,
//     with a comment after "#" if needed;
//   - settings.Takes(cmd, "data_dir"): the settings that it reads, whose flags it gets. Without
//     that it gets the flags of [ClientSettings]; settings.takesNone(cmd) is for a command that
//     needs no configuration.
func NewRoot(p *Program) *cobra.Command {
	settings := &Settings{process: p, values: map[string]string{}}
	root := &cobra.Command{
		Use:                "botwired",
		Short:              "BotWire's memory API, local and durable",
		Long:               about,
		Example:            rootExamples,
		Args:               NoArguments,
		RunE:               showRoot,
		SilenceUsage:       true,
		SilenceErrors:      true,
		DisableSuggestions: true, // they take several lines; NoArguments has its own
	}
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.Flags().Bool("version", false, "show the version of this program")
	root.SetFlagErrorFunc(p.flagError)
	root.SetGlobalNormalizationFunc(flagSpelling())
	root.AddGroup(CommandGroups()...)
	root.AddCommand(
		newRunCommand(p, settings),
		newStatusCommand(p, settings),
		newMonitorCommand(p, settings),
		newFlushCommand(p, settings),
		newPendingCommand(p, settings),
		newDeadLettersCommand(p, settings),
		newGetCommand(p, settings),
		newSetCommand(p, settings),
		newDeleteCommand(p, settings),
		newListCommand(p, settings),
		newHistoryCommand(p, settings),
		newDiffCommand(p, settings),
		newUndoCommand(p, settings),
		newExportEntriesCommand(p, settings),
		newImportCommand(p, settings),
		newRestoreCommand(p, settings),
		newForgetCommand(p, settings),
		newPurgeCommand(p, settings),
		newSealCommand(p, settings),
		newDrillCommand(p, settings),
		newDoctorCommand(p, settings),
		newConfigCommand(p, settings),
		newMCPCommand(p, settings),
		newVersionCommand(p, settings),
	)
	if p.Own != nil {
		root.AddCommand(p.Own(p, settings)...)
	}
	setCompletion(root, settings)
	settings.Takes(root, AllSettings()...) // they may come before the command
	HideSettings(root)
	settings.makeClients(root)
	setHelp(root, p, settings)
	settings.completeNames(root)
	return root
}

// showRoot runs botwired without a command. It prints the version itself: with cobra's template, the linker
// would keep every exported method, a quarter of the program.
func showRoot(cmd *cobra.Command, _ []string) error {
	if wanted, _ := cmd.Flags().GetBool("version"); wanted { // the flag is the root's
		_, err := fmt.Fprintln(cmd.OutOrStdout(), build.This())
		return err
	}
	return cmd.Help()
}

// JSONFlag adds the flag --json.
func JSONFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}

func newVersionCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		GroupID: groupOther,
		Example: "  botwired version\n" +
			"  botwired version --json",
		Args: NoArguments,
	}
	settings.takesNone(cmd)
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		b := build.This()
		if *asJSON {
			return term.EncodeJSON(p.Stdout, b)
		}
		return b.Write(p.Stdout)
	}
	return cmd
}
