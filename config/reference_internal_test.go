package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var writeReference = flag.Bool("reference", false, "write the reference in docs/settings.md")

const settingsPage = "../docs/settings.md"

// docs/settings.md has every setting, exactly as in the code.
func TestSettingsReference(t *testing.T) {
	page, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for section, want := range map[string]string{"overview": settingsOverview(), "reference": settingsReference()} {
		begin, end := "<!-- "+section+" -->\n", "<!-- /"+section+" -->"
		before, rest, begins := strings.Cut(text, begin)
		got, after, ends := strings.Cut(rest, end)
		if !begins || !ends {
			t.Fatalf("docs/settings.md has no %s… %s section", begin, end)
		}
		if got != want && !*writeReference {
			t.Errorf("docs/settings.md is not what the settings are (%s): run make reference", section)
		}
		text = before + begin + want + end + after
	}
	if *writeReference {
		if err := os.WriteFile(settingsPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// settingsOverview returns a table with a row for each setting.
func settingsOverview() string {
	var b strings.Builder
	b.WriteString("| setting | default | SIGHUP | namespaces |\n|---|---|---|---|\n")
	for _, s := range Settings() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s |\n", s.Name, anchorOf(s.Name), documentedDefault(s), tick(s.Live), tick(s.Overridable))
	}
	for _, s := range namespaceSettings() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | only there |\n", s.Name, anchorOf(s.Name), documentedDefault(s), tick(s.Live))
	}
	return b.String()
}

// settingsReference returns a section for each setting, in the groups of a sample file.
func settingsReference() string {
	var b strings.Builder
	open := "none"
	for _, s := range Settings() {
		group, _, nested := strings.Cut(s.Name, ".")
		if !nested {
			group = ""
		}
		if group != open {
			open = group
			title, intro := group, intros[group]
			if group == "" {
				title, intro = "general", intros[s.Name]
			}
			if s.Name == "namespaces" {
				title = s.Name
			}
			fmt.Fprintf(&b, "\n## %s%s\n\n%s\n", strings.ToUpper(title[:1]), title[1:], intro)
		}
		writeSetting(&b, s)
	}
	for _, s := range namespaceSettings() {
		fmt.Fprintf(&b, "\n### `%s`\n\n%s.\n\n", s.Name, sentence(s.Doc))
		fmt.Fprintf(&b, "- Only an entry of `namespaces` has it. Default: %s\n- Takes: %s\n", documentedDefault(s), s.codec.expected)
	}
	return b.String() + "\n"
}

func writeSetting(b *strings.Builder, s Setting) {
	flags := "`--" + s.Flag() + "`"
	if s.Alias != "" {
		flags += " or `--" + s.Alias + "`"
	}
	fmt.Fprintf(b, "\n### `%s`\n\n%s.\n\n", s.Name, sentence(s.Doc))
	fmt.Fprintf(b, "- Flag: %s. Environment: `%s`\n", flags, s.Env())
	fmt.Fprintf(b, "- Default: %s\n- Takes: %s\n", documentedDefault(s), s.codec.expected)
	change := "after a restart"
	if s.Live {
		change = "at SIGHUP"
	}
	if s.Overridable {
		change += ". A namespace may have its own"
	}
	fmt.Fprintf(b, "- A change counts %s\n", change)
}

func documentedDefault(s Setting) string {
	if s.Documented != "" {
		return s.Documented
	}
	return "`" + s.Default + "`"
}

// sentence capitalizes a setting's documentation.
func sentence(doc string) string { return strings.ToUpper(doc[:1]) + doc[1:] }

func tick(yes bool) string {
	if yes {
		return "yes"
	}
	return ""
}

// anchorOf returns the anchor of the setting's heading.
func anchorOf(name string) string { return strings.ReplaceAll(name, ".", "") }
