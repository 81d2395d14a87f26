package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// If two callers set what both have read, the second gets an error, and nothing is written.
func TestSetWithACondition(t *testing.T) {
	newHome(t)
	l := startLife(t, "--upstream", "embedded", "--embedded-latency", "0s", "--data-dir", t.TempDir())
	command := func(args ...string) outcome {
		t.Helper()
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append(args, "--listen", l.address), &stdout, &stderr)
		return outcome{code, stdout.String(), stderr.String()}
	}
	wantOutput(t, command("set", "ns", "k", "first", "--if-none-match", "*"), "stored ns/k, 5 characters\n")
	wantFailure(t, command("set", "ns", "k", "again", "--if-none-match", "*"), cli.ExitError, "there is such an entry, and --if-none-match '*' makes only a first value")
	var read struct{ Value, ETag string }
	got := command("get", "ns", "k", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &read); err != nil || read.Value != "first" || read.ETag == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	unquoted := strings.Trim(read.ETag, `"`) // a shell may have stripped the quotes
	wantOutput(t, command("set", "ns", "k", "mine", "--if-match", unquoted), "stored ns/k, 4 characters\n")
	for _, tag := range []string{read.ETag, unquoted} {
		wantFailure(t, command("set", "ns", "k", "theirs", "--if-match", tag), cli.ExitError, "it has changed, so read it again")
	}
	for _, noTag := range []string{"", "ns", "1-of-mine"} {
		wantFailure(t, command("set", "ns", "k", "theirs", "--if-match", noTag), cli.ExitUsage, "expected '*', or the etag that \"botwired get --json\" shows")
		wantFailure(t, command("set", "--if-none-match", noTag, "ns", "k"), cli.ExitUsage, "--if-none-match = ")
	}
	wantFailure(t, command("set", "ns", "other", "v", "--if-match", "*"), cli.ExitError, "--if-match wants the entry to exist, and it does not")
	wantFailure(t, command("set", "ns", "k", "v", "--if-match", `a "b`), cli.ExitError, "--if-match must be *, or entity tags")
	wantOutput(t, command("get", "ns", "k"), "mine")
	l.end()
}
