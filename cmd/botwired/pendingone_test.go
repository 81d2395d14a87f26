package main

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

func TestPendingDrop(t *testing.T) {
	answers := map[string]answer{
		"GET /_botwired/pending?limit=10000&namespace=ns":        {200, `{"pending":[{"seq":16,"key":"other"},{"seq":17,"key":"k","op":"put","bytes":3}]}`},
		"POST /_botwired/pending/drop?key=k&namespace=ns":        {200, `{"dropped":true,"id":"18"}`},
		"POST /_botwired/pending/drop?key=k&namespace=ns&seq=17": {200, `{"dropped":true,"id":"17"}`},
		"POST /_botwired/pending/drop?key=none&namespace=ns":     {404, `{"detail":"no such write to ns/none is pending"}`},
	}
	d := newDaemon(t, answers)
	wantFailure(t, at(t, d, nil, "pending", "drop", "ns", "k"), cli.ExitUsage, "--yes")
	wantOutput(t, at(t, d, nil, "pending", "drop", "ns", "k", "--yes"), "dropped: it is dead letter 18 now; botwired dead-letters retry 18 brings it back\n")
	wantFailure(t, at(t, d, nil, "pending", "drop", "ns", "none", "--yes"), cli.ExitError, "no write to ns/none is pending")
	reply := func(text string) func(*cli.Program) {
		return func(p *cli.Program) { onTerminal(p); p.Stdin = strings.NewReader(text) }
	}
	got := at(t, d, reply("y\n"), "pending", "drop", "ns", "k")
	if !strings.Contains(got.stderr, "Drop write 17 to ns/k (put, 3 bytes)? [y/N]") || !strings.Contains(got.stdout, "dead letter 17 now") {
		t.Errorf("%+v", got)
	}
	if got := at(t, d, reply("\n"), "pending", "drop", "ns", "k"); got.code != cli.ExitError || !strings.Contains(got.stderr, "nothing is changed") {
		t.Errorf("without a yes: %+v", got)
	}
	wantFailure(t, at(t, d, reply("y\n"), "pending", "drop", "ns", "none"), cli.ExitError, "no write to ns/none is pending")
}
