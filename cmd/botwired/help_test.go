package main

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/service"
)

// newTree returns the root command of a process without an environment.
func newTree() *cobra.Command {
	return cli.NewRoot(newProcess(term.Terminal{
		Stdout:     io.Discard,
		Stderr:     io.Discard,
		IsTerminal: func(any) bool { return false },
		Size:       term.SizeOf,
	}, nil, &service.Inherited{}))
}

// Every command has at least two examples, and each example's command line parses.
func TestExamplesParse(t *testing.T) {
	cli.EachCommand(newTree(), func(cmd *cobra.Command) {
		if !cmd.Runnable() || cmd.Hidden {
			return
		}
		examples := strings.Split(cmd.Example, "\n")
		if len(examples) < 2 {
			t.Errorf("%s has fewer than two examples: %q", cmd.CommandPath(), cmd.Example)
		}
		own := false
		for _, example := range examples {
			for _, line := range commandLines(example) {
				target := wantParses(t, line)
				own = own || strings.HasPrefix(target, cmd.CommandPath())
			}
			// The default directory is for BotWire: after a trial in it, a daemon for BotWire refuses
			// it.
			if strings.Contains(example, "--upstream embedded") && !strings.Contains(example, "--data-dir") {
				t.Errorf("%s: the trial %q has no directory of its own", cmd.CommandPath(), example)
			}
			if !strings.HasPrefix(example, "  ") || len(example) > 80 {
				t.Errorf("%s: the example %q is not indented by two spaces, or longer than %d", cmd.CommandPath(), example, 80)
			}
		}
		if !own && cmd.HasParent() {
			t.Errorf("%s: no example has the command itself: %q", cmd.CommandPath(), cmd.Example)
		}
	})
}

// word matches a word of a command line, with its quotes.
var word = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"]+)+`)

// commandLines returns the arguments of each botwired call in a line of shell.
func commandLines(example string) (lines [][]string) {
	example, _, _ = strings.Cut(example, " # ")
	for _, simple := range regexp.MustCompile(`\|\||&&|[|<>()]`).Split(example, -1) {
		words := word.FindAllString(simple, -1)
		if len(words) == 0 || words[0] != "botwired" {
			continue
		}
		for i := range words {
			words[i] = strings.Trim(words[i], `'"`)
		}
		lines = append(lines, words[1:])
	}
	return lines
}

// wantParses returns the path of the command that a command line runs.
func wantParses(t *testing.T, line []string) string {
	t.Helper()
	cmd, rest, err := newTree().Find(line) // flags keep their values, so each line gets its own tree
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("botwired %s: %v", strings.Join(line, " "), err)
		return ""
	}
	return cmd.CommandPath()
}

// A command with flags for settings reads the configuration: it fails if the file does not exist.
func TestCommandsReadTheirSettings(t *testing.T) {
	cli.EachCommand(newTree(), func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("config") == nil || !cmd.HasParent() || cmd.Name() == "doctor" { // it reports it as a finding
			return
		}
		line := append(strings.Fields(cmd.CommandPath())[1:], "--config=/nonexistent")
		if cmd.Flags().Lookup("yes") != nil {
			line = append(line, "--yes")
		}
		wantFailure(t, botwired(t, append(line, argumentsFor(cmd)...)...), cli.ExitError, "configuration file", "/nonexistent")
	})
}

// argumentsFor returns the arguments of the command's first example.
func argumentsFor(cmd *cobra.Command) []string {
	for _, example := range strings.Split(cmd.Example, "\n") {
		for _, line := range commandLines(example) {
			target, rest, err := newTree().Find(line)
			if err == nil && target.CommandPath() == cmd.CommandPath() {
				return rest
			}
		}
	}
	return nil
}

// A setting's flag may come before the command. If the command does not read the setting, it fails.
func TestFlagsBeforeTheCommand(t *testing.T) {
	d := newDaemon(t, map[string]answer{"GET /_botwired/livez": {200, `{"status":"alive"}`}})
	wantOutput(t, botwired(t, "--listen", d.address, "status", "--live"), "alive\n")
	wantOutput(t, botwired(t, "--listen="+d.address, "status", "--live"), "alive\n")
	wantFailure(t, botwired(t, "--listen", d.address, "statsu"), cli.ExitUsage, `unknown command "statsu"`, "did you mean status?")
	wantFailure(t, botwired(t, "status", "--flush.linger", "1s"), cli.ExitUsage,
		`--flush-linger is a setting of the daemon, which "botwired status" does not read: give it to botwired serve`)
	wantFailure(t, botwired(t, "--upstream", "embedded", "status"), cli.ExitUsage, "--upstream-url is a setting")
	wantFailure(t, botwired(t, "version", "--config", "x"), cli.ExitUsage, "reads no configuration")
}

// The exit codes are one table, in the help and in docs/commands.md.
func TestExitCodes(t *testing.T) {
	page, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	topic := botwired(t, "help", "exit-codes")
	if topic.code != cli.ExitOK || topic.stderr != "" {
		t.Errorf("help exit-codes: %+v", topic)
	}
	for _, code := range cli.ExitCodes() {
		if row := "| " + code[0] + " | " + code[1] + " |\n"; !bytes.Contains(page, []byte(row)) {
			t.Errorf("docs/commands.md lacks %s", row)
		}
		if !strings.Contains(topic.stdout, strings.ReplaceAll(code[1], "`", "")) {
			t.Errorf("help exit-codes lacks %s: %s", code[0], code[1])
		}
	}
}

// The help fits a terminal of 80 columns.
func TestHelpFitsTheTerminal(t *testing.T) {
	var pages []string
	cli.EachCommand(newTree(), func(cmd *cobra.Command) {
		if !cmd.Hidden {
			pages = append(pages, strings.TrimPrefix(cmd.CommandPath(), "botwired"))
		}
	})
	home := regexp.MustCompile(`\S*/\.local/state/botwired`) // the test's own path is long
	for _, page := range pages {
		for line := range strings.Lines(botwired(t, append([]string{"help"}, strings.Fields(page)...)...).stdout) {
			if n := len([]rune(strings.TrimSuffix(home.ReplaceAllString(line, ""), "\n"))); n > 80 {
				t.Errorf("help%s: %d columns: %s", page, n, line)
			}
		}
	}
}
