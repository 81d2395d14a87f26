package main

import (
	"net"
	"strings"
	"testing"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli"
)

// The line to copy contains the daemon's address, and never its token.
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
		if got := attach.ExportLine(c, test.address.String(), test.token); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// The shell completes the namespaces and keys that the daemon knows.
func TestCompletionOfNames(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/namespaces?limit=200&match=":                   {200, `{"namespaces":[{"namespace":"my-agent"},{"namespace":"other"}]}`},
		"GET /_botwired/namespaces?limit=200&match=my":                 {200, `{"namespaces":[{"namespace":"army"},{"namespace":"my-agent"}]}`},
		"GET /_botwired/entries?limit=200&namespace=my-agent&prefix=":  {200, `{"entries":[{"key":"a"},{"key":"b"}]}`},
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
		only := func(p *cli.Program) {
			p.Args = append([]string{"__completeNoDesc", words[0], "--listen=" + d.address}, words[1:]...)
		}
		got := at(t, d, only)
		if shown := strings.Join(strings.Fields(got.stdout), " "); shown != want {
			t.Errorf("%q is completed by %q, want %q", line, shown, want)
		}
	}
}
