package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newManCommand writes the manual pages for a package of the program. They have the texts of the
// help.
func newManCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a directory",
		Hidden: true,
		Args:   arguments(1, 1),
	}
	settings.takesNone(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // everybody reads manual pages
			return unusable(err)
		}
		home := manText(cmp.Or(valueIn(p.environ, "HOME"), "/nonexistent")) // of whoever builds a package
		count := 0
		var failed error
		eachCommand(cmd.Root(), func(page *cobra.Command) {
			if failed != nil || !page.Runnable() || page.HasParent() && !isShown(page) {
				return
			}
			text := strings.ReplaceAll(manPage(page), home, "~")
			failed = os.WriteFile(filepath.Join(args[0], manName(page)+".1"), []byte(text), 0o644) //nolint:gosec // likewise
			count++
		})
		if failed != nil {
			return unusable(failed)
		}
		_, err := fmt.Fprintf(p.stdout, "%s written to %s\n", plural(count, "manual page"), printable(args[0]))
		return err
	}
	return cmd
}

// manName is the name of a command's page: botwired-dead-letters-retry.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the manual page of a command, in the language of man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"botwired\"\n", strings.ToUpper(manName(cmd)), manQuoted("botwired "+buildVersion()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", manText(manName(cmd)), manText(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", manText(cmd.UseLine()))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", manParagraphs(aboutOf(cmd)))
	own, settings := flagsOf(cmd)
	manFlags(&b, "OPTIONS", own)
	manFlags(&b, "SETTINGS", settings)
	for _, group := range groupsOf(cmd) {
		fmt.Fprintf(&b, ".SH %s\n", manQuoted(strings.ToUpper(group.title)))
		for _, sub := range group.commands {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", manText(sub.Name()), manText(sub.Short))
		}
	}
	b.WriteString(".SH EXAMPLES\n.EX\n")
	for line := range strings.Lines(cmd.Example) {
		b.WriteString(manText(strings.TrimSuffix(line, "\n")) + "\n")
	}
	b.WriteString(".EE\n.SH EXIT STATUS\n")
	for _, code := range exitCodes() {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", manText(code[0]), manText(strings.ReplaceAll(code[1], "`", "")))
	}
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", manText(manName(cmd.Parent())))
	}
	return b.String()
}

func manFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			kind = " \\fI" + manText(kind) + "\\fR"
		}
		if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(usage, "(default ") {
			usage += " (default " + manDefault(f) + ")"
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR%s\n%s\n", manText(name), kind, manText(usage))
	})
}

// manDefault is a flag's default. The pages are the same for all platforms, and say where each
// keeps the data.
func manDefault(f *pflag.Flag) string {
	if f.Annotations[settingOf] == nil || f.Annotations[settingOf][0] != "data_dir" {
		return f.DefValue
	}
	return `~/.local/state/botwired; on macOS ~/Library/Application Support/botwired, on Windows %LocalAppData%\botwired`
}

// manParagraphs keeps indented paragraphs as they are, as the help does.
func manParagraphs(text string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if isIndented(paragraph) {
			fmt.Fprintf(&b, ".EX\n%s\n.EE\n", manText(strings.Trim(paragraph, "\n")))
		} else {
			b.WriteString(manText(wrap(paragraph, otherColumns)) + "\n")
		}
	}
	return b.String()
}

// manText escapes what man(7) would take for its own.
func manText(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r >= utf8.RuneSelf:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func manQuoted(text string) string { return `"` + strings.ReplaceAll(manText(text), `"`, `\(dq`) + `"` }
