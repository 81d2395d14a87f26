package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/botwired/botwired/internal/attach"
)

// exitMissing is the exit code of a command that has done its work and found that something is
// missing, which a person has to look at.
const exitMissing = 3

// exitCodes are all exit codes, for the help, the manual pages and docs/commands.md.
func exitCodes() [][2]string {
	return [][2]string{
		{strconv.Itoa(exitOK), "the command has done what it was asked for"},
		{strconv.Itoa(exitError), "it failed, or a setting is wrong: standard error says why"},
		{strconv.Itoa(exitUsage), "botwired does not understand the command line"},
		{strconv.Itoa(exitMissing), "`recover`, `export`: something is or may be missing; `doctor`: warnings"},
		{strconv.Itoa(attach.ExitNotRun), "`run`: the command is there and cannot be run"},
		{strconv.Itoa(attach.ExitNotFound), "`run`: there is no such command"},
		{fmt.Sprintf("%d + N", attach.ExitSignal), "`run`: signal N ended the command"},
		{"any other", "`run`: the command's own"},
	}
}

// exitCodesTopic is the page of "botwired help exit-codes".
func exitCodesTopic() string {
	var b strings.Builder
	b.WriteString("The exit codes of botwired's commands.\n\n")
	for _, code := range exitCodes() {
		fmt.Fprintf(&b, "  %-9s  %s\n", code[0], strings.ReplaceAll(code[1], "`", ""))
	}
	return b.String()
}
