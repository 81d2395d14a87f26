package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/botwired/botwired/internal/attach"
)

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
