package config_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

// A sample loads as it is, and with every setting uncommented. Both times, the defaults are in force.
func TestSampleLoads(t *testing.T) {
	environ := home(t)
	want := load(t, config.Sources{Environ: environ}).Config
	sample := config.Sample(environ)
	commentedIn := regexp.MustCompile(`(?m)^( *)#(\S)`).ReplaceAllString(sample, "$1$2")
	for name, content := range map[string]string{"as it is": sample, "commented in": commentedIn} {
		got := load(t, config.Sources{Environ: environ, File: write(t, "config.yaml", content)})
		if diff := cmp.Diff(want, got.Config); diff != "" {
			t.Errorf("%s (-defaults +sample):\n%s", name, diff)
		}
		for _, v := range got.Values {
			if from := v.Source.Layer; (from == config.FromFile) != (name == "commented in") {
				t.Errorf("%s: %s comes from %s", name, v.Name, from)
			}
		}
	}
}

func TestSampleSaysEverything(t *testing.T) {
	environ := home(t)
	sample := config.Sample(environ)
	flat := strings.Join(slices.DeleteFunc(strings.Fields(sample), func(word string) bool { return word == "#" }), " ")
	for _, s := range config.Settings() {
		doc := strings.ReplaceAll(s.Doc, "`", "")
		wantAll(t, flat, doc[1:]+".") // the first letter is a capital there
		_, name, nested := strings.Cut(s.Name, ".")
		if !nested {
			name = s.Name
		}
		wantAll(t, sample, "#"+name+": ")
	}
	wantAll(t, flat, config.DefaultFile(environ), "Default: 10s.", "a duration above zero such as 200ms", "[SIGHUP]")
	for line := range strings.Lines(sample) {
		if len(line) > 101 && strings.Count(strings.TrimSpace(line), " ") > 1 {
			t.Errorf("this line is long: %s", line)
		}
		if strings.TrimSpace(line) == "#" {
			t.Error("a group has no introduction")
		}
	}
}

// A user without a home also gets a sample.
func TestSampleWithoutHome(t *testing.T) {
	sample := config.Sample([]string{})
	wantAll(t, sample, "#data_dir: /var/lib/botwired\n")
	load(t, config.Sources{File: write(t, "config.yaml", sample)})
}
