package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const about = `botwired runs beside a process that hosts AI agents and speaks BotWire's memory
API on loopback. It answers reads from memory. It makes writes durable on the
local disk, acknowledges them, and carries them to BotWire in the background.

Begin with "botwired serve" in one terminal and "botwired status" in another.`

const rootExamples = `  botwired run -- python agent.py                       # a daemon beside it
  botwired serve --upstream embedded --data-dir trial   # without a network`

// everyDay are the commands that the help shows unless it is asked for all.
var everyDay = []string{"run", "serve", "status", "get", "set", "list", "doctor", "mcp"}

// The groups of the commands in the help of all.
const (
	groupDaily    = "daily"
	groupMemory   = "memory"
	groupCare     = "care"
	groupServices = "services"
	groupOther    = "other"
)

func commandGroups() []*cobra.Group {
	return []*cobra.Group{
		{ID: groupDaily, Title: "The daemon"},
		{ID: groupMemory, Title: "Memory"},
		{ID: groupCare, Title: "Care"},
		{ID: groupServices, Title: "Services"},
		{ID: groupOther, Title: "Other"},
	}
}

// newRootCommand makes the tree of commands. A command's constructor declares what the help,
// the manual page and the completion show of it:
//
//   - GroupID, for a command of the root: one of the groups above;
//   - Example: two lines or more, each indented by two spaces and a command line that works,
//     with a comment behind "#" if it needs one;
//   - settings.takes(cmd, "data_dir"): the settings that it reads, whose flags it gets. Without
//     that it gets the flags of a client (clientSettings); settings.takesNone(cmd) is for a
//     command that needs no configuration.
func newRootCommand(p *process) *cobra.Command {
	settings := &settingFlags{process: p, values: map[string]string{}}
	root := &cobra.Command{
		Use:                "botwired",
		Short:              "BotWire's memory API, local and durable",
		Long:               about,
		Example:            rootExamples,
		Args:               noArguments,
		RunE:               showRoot,
		SilenceUsage:       true,
		SilenceErrors:      true,
		DisableSuggestions: true, // they take several lines; noArguments has its own
	}
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.Flags().Bool("version", false, "show the version of this program")
	root.SetFlagErrorFunc(p.flagError)
	root.SetGlobalNormalizationFunc(flagSpelling())
	root.AddGroup(commandGroups()...)
	root.AddCommand(
		newRunCommand(p, settings),
		newServeCommand(p, settings),
		newStatusCommand(settings),
		newMonitorCommand(p, settings),
		newFlushCommand(p, settings),
		newPendingCommand(p, settings),
		newDeadLettersCommand(p, settings),
		newGetCommand(p, settings),
		newSetCommand(p, settings),
		newDeleteCommand(p, settings),
		newListCommand(settings),
		newHistoryCommand(p, settings),
		newUndoCommand(p, settings),
		newExportEntriesCommand(p, settings),
		newImportCommand(p, settings),
		newRestoreCommand(p, settings),
		newForgetCommand(p, settings),
		newDrillCommand(p, settings),
		newDoctorCommand(p, settings),
		newRecoverCommand(p, settings),
		newConfigCommand(p, settings),
		newSelfhostCommand(p, settings),
		newMCPCommand(p, settings),
		newVersionCommand(p, settings),
	)
	setCompletion(root, settings)
	settings.takes(root, allSettings()...) // they may stand before the command
	hideSettings(root)
	settings.makeClients(root)
	setHelp(root, p, settings)
	settings.completeNames(root)
	return root
}

// showRoot answers botwired without a command. It prints the version itself: cobra's template for that would have the
// linker keep every exported method, a quarter of the program.
func showRoot(cmd *cobra.Command, _ []string) error {
	if wanted, _ := cmd.Flags().GetBool("version"); wanted { // the flag is the root's
		_, err := fmt.Fprintln(cmd.OutOrStdout(), thisBuild())
		return err
	}
	return cmd.Help()
}

func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}
