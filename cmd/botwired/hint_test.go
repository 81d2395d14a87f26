package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
)

// The line to copy has the daemon's address, and never its token.
func TestExportLine(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2689}
	anywhere := &net.TCPAddr{IP: net.IPv4zero, Port: 2700}
	for _, test := range []struct {
		address *net.TCPAddr
		listen  string
		file    string
		token   string
		want    string
	}{
		{address, "127.0.0.1:0", "", "", "export BOTWIRE_URL=http://127.0.0.1:2689"},
		{anywhere, "0.0.0.0:2700", "/run/token", "s3cret", "export BOTWIRE_URL=http://x:$(cat /run/token)@127.0.0.1:2700"},
		{address, "127.0.0.1:2689", "/my 'files'/token", "s3cret", `export BOTWIRE_URL=http://x:$(cat '/my '\''files'\''/token')@127.0.0.1:2689`},
		{address, "127.0.0.1:2689", "/run/token", "s3/cr@t", "export BOTWIRE_URL=http://x:$(jq -Rr @uri /run/token)@127.0.0.1:2689"},
		{address, "unix:///run/s", "", "", ""},
	} {
		c := &config.Config{Listen: test.listen, Auth: config.Auth{TokenFile: test.file}}
		if got := exportLine(c, test.address.String(), test.token); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// A shell completes the namespaces and keys that the daemon knows.
func TestCompletionOfNames(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/namespaces?limit=200":                          {200, `{"namespaces":[{"namespace":"my-agent"},{"namespace":"other"}]}`},
		"GET /_botwired/namespaces?limit=200&match=my":                 {200, `{"namespaces":[{"namespace":"army"},{"namespace":"my-agent"}]}`},
		"GET /_botwired/entries?limit=200&namespace=my-agent":          {200, `{"entries":[{"key":"a"},{"key":"b"}]}`},
		"GET /_botwired/entries?limit=200&namespace=my-agent&prefix=b": {200, `{"entries":[{"key":"b"}]}`},
	})
	for line, want := range map[string]string{
		"get ":                         "my-agent other :4",
		"list my":                      "my-agent :4",
		"set my-agent ":                "a b :4",
		"delete my-agent b":            "b :4",
		"get my-agent a ":              ":0",
		"export my-agent ":             "my-agent other :4",
		"pending drop my-agent b":      "b :4",
		"flush --namespace my":         "my-agent :4",
		"get unknown-to-the-daemon x":  ":4",
		"status --watc":                "--watch :4",
		"dead-letters retry --namespa": "--namespace :4",
	} {
		words := strings.Split(line, " ")
		only := func(p *process) {
			p.args = append([]string{"__completeNoDesc", words[0], "--listen=" + d.address}, words[1:]...)
		}
		got := at(t, d, only)
		if shown := strings.Join(strings.Fields(got.stdout), " "); shown != want {
			t.Errorf("%q is completed by %q, want %q", line, shown, want)
		}
	}
}

// macro is a line of a manual page that begins with a request.
var macro = regexp.MustCompile(`^\.(TH|SH|TP|B|BR|PP|EX|EE)\s`)

// The pages of an archive are made on one platform and read on all: they name the data directory of
// each, and nothing of the machine that made them.
func TestManualPagesAreForAllPlatforms(t *testing.T) {
	dir := t.TempDir()
	if got := botwired(t, "man", dir); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	page, err := os.ReadFile(filepath.Join(dir, "botwired-serve.1"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(`\-`, "-", `\e`, `\`).Replace(string(page))
	here := config.DefaultDataDir([]string{"HOME=/home", "XDG_STATE_HOME=", `LocalAppData=%LocalAppData%`})
	for _, want := range []string{
		strings.Replace(here, "/home", "~", 1), "~/.local/state/botwired", "~/Library/Application Support/botwired", `%LocalAppData%\botwired`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of serve lacks %s", want)
		}
	}
}

// Every command has a manual page with the texts of its help.
func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	written := botwired(t, "man", dir)
	var names, want []string
	eachCommand(newTree(), func(cmd *cobra.Command) {
		if cmd.Runnable() && (isShown(cmd) || !cmd.HasParent()) {
			want = append(want, manName(cmd)+".1")
		}
	})
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, file.Name())
		page, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, ".") && !macro.MatchString(line) || strings.HasPrefix(line, "'") || strings.ContainsFunc(line, func(r rune) bool { return r > '~' }) {
				t.Errorf("%s: man(7) does not take the line %q", file.Name(), line)
			}
			if strings.Count(line, "(default ") > 1 {
				t.Errorf("%s: the line %q has two defaults", file.Name(), line)
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), names); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	if written.code != exitOK || !strings.HasPrefix(written.stdout, plural(len(want), "manual page")+" written to ") {
		t.Errorf("%+v", written)
	}
	page, err := os.ReadFile(filepath.Join(dir, "botwired-dead-letters-retry.1"))
	if err != nil || !strings.Contains(string(page), `\fB\-\-all\fR`) || !strings.Contains(string(page), `botwired dead\-letters retry 17 18`) {
		t.Errorf("%v: %s", err, page)
	}
}
