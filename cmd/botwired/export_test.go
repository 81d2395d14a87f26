package main

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

func TestExport(t *testing.T) {
	const (
		first  = `{"namespace":"a","key":"k","value":"v","created_at":1.5,"updated_at":2.5,"state":"pending"}` + "\n"
		second = `{"namespace":"a","key":"l","value":"\u0000\n","created_at":1.5,"updated_at":2.5,"state":"settled"}` + "\n"
		all    = first + second + `{"end":{"namespace":"a","entries":2,"missing":0,"complete":true}}` + "\n"
		empty  = `{"end":{"namespace":"b","entries":0,"missing":0,"complete":true}}` + "\n"
		less   = first + `{"end":{"namespace":"c","entries":1,"missing":2,"complete":false,"why":"upstream is down"}}` + "\n"
	)
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/export?namespace=a":   {200, all},
		"GET /_botwired/export?namespace=b":   {200, empty},
		"GET /_botwired/export?namespace=c":   {200, less},
		"GET /_botwired/export?namespace=cut": {200, first + second},
		"GET /_botwired/export?namespace=few": {200, first + `{"end":{"namespace":"few","entries":2,"complete":true}}` + "\n"},
		"GET /_botwired/export?namespace=big": {200, strings.Repeat(first, 1000)},
		"GET /_botwired/export?namespace=no":  {503, `{"detail":"not ready"}`},
		"GET /_botwired/export?namespace=x":   {200, "<html>"},

		"GET /_botwired/namespaces?limit=1000":         {200, `{"namespaces":[{"namespace":"a"}],"next":"a"}`},
		"GET /_botwired/namespaces?after=a&limit=1000": {200, `{"namespaces":[{"namespace":"b"}],"next":null}`},
	})
	wantOutput(t, at(t, d, nil, "export", "--all"), all+empty)
	wantFailure(t, at(t, d, nil, "export", "--all", "a"), cli.ExitUsage, "unexpected argument")
	wantOutput(t, at(t, d, nil, "export", "a", "b"), all+empty)
	wantFailure(t, at(t, d, nil, "export", "no"), cli.ExitError, "not ready")
	wantFailure(t, at(t, d, nil, "export", "x"), cli.ExitError, "another program than botwired")
	broken := at(t, d, func(p *cli.Program) { p.Stdout = brokenPipe{} }, "export", "big")
	if wantFailure(t, broken, cli.ExitError, "cut off after"); strings.Count(broken.stderr, "broken pipe") != 1 {
		t.Errorf("it says more than once: %q", broken.stderr)
	}
	wantFailure(t, at(t, d, nil, "export"), cli.ExitUsage, "the arguments are missing")
	for namespace, want := range map[string]struct {
		code int
		text string
	}{
		"c":   {cli.ExitMissing, "botwired: the export may not be all: c: 2 values missing: upstream is down\n"},
		"cut": {cli.ExitError, "botwired: namespace cut is cut off after 2 entries: the daemon has ended\n"},
		"few": {cli.ExitError, "botwired: namespace few is cut off after 1 entry: the daemon has ended\n"},
	} {
		got := at(t, d, nil, "export", namespace, "a")
		if got.code != want.code || got.stderr != want.text || !strings.HasPrefix(got.stdout, first) {
			t.Errorf("%s: exit %d, %q", namespace, got.code, got.stderr)
		}
		if goesOn := strings.HasSuffix(got.stdout, all); goesOn != (want.code == cli.ExitMissing) {
			t.Errorf("%s: %q", namespace, got.stdout)
		}
	}
}
