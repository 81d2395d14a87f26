package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

// The README's table is the table of settings, row by row and word by word.
func TestReadmeListsTheSettings(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, begins := strings.Cut(string(readme), "<!-- settings -->\n")
	section, _, ends := strings.Cut(after, "<!-- /settings -->")
	if !begins || !ends {
		t.Fatal("README.md has no <!-- settings --> … <!-- /settings --> section")
	}
	want := []string{"| setting | default | meaning |", "|---|---|---|"}
	for _, s := range config.Settings() {
		shown := s.Documented
		if shown == "" {
			shown = "`" + s.Default + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", s.Name, shown, s.Doc))
	}
	var got []string
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); line != "" {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README.md's table (-settings +README):\n%s", diff)
	}
}

// The README names every setting that a namespace may override, and no other.
func TestReadmeListsWhatANamespaceMayOverride(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, begins := strings.Cut(string(readme), "<!-- overrides -->")
	section, _, ends := strings.Cut(after, "<!-- /overrides -->")
	if !begins || !ends {
		t.Fatal("README.md has no <!-- overrides --> … <!-- /overrides --> section")
	}
	var want []string
	for _, s := range config.Settings() {
		if s.Overridable {
			want = append(want, "`"+s.Name+"`")
		}
	}
	if got := strings.Join(strings.Fields(section), " "); got != strings.Join(want, ", ") {
		t.Errorf("README.md lists %s\nexpected %s", got, strings.Join(want, ", "))
	}
}

func TestSettingNames(t *testing.T) {
	seen := map[string]string{}
	for _, s := range config.Settings() {
		for _, spelling := range []string{s.Env(), "--" + s.Flag(), "--" + s.Alias} {
			if other, twice := seen[spelling]; twice && spelling != "--" {
				t.Errorf("%s and %s are both %s", other, s.Name, spelling)
			}
			seen[spelling] = s.Name
		}
		if s.Doc == "" || strings.ContainsAny(s.Doc, "|\n") {
			t.Errorf("%s: documentation %q does not fit a table", s.Name, s.Doc)
		}
		if s.Kind() == "" {
			t.Errorf("%s: no kind", s.Name)
		}
	}
}
