package main

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

const previewed = `{"namespace":"ns","before":1700000000,"as_of":7,"author":"agent","restored":2,"deleted":1,"same":0,"left":1,` +
	`"left_entries":[{"key":"x","why":"another host has written it since"}],` +
	`"changes":[{"key":"a","op":"put","bytes":1},{"key":"b","op":"put","bytes":1},{"key":"new","op":"delete","bytes":0}]}`

func TestUndoOfANamespaceByAScript(t *testing.T) {
	const page = `{"namespace":"ns","restored":1,"deleted":1,"same":0,"left":1,"left_entries":[{"key":"a","why":"it was written after the preview"}],"next":"b"}`
	const last = `{"namespace":"ns","restored":0,"deleted":0,"same":1,"left":0,"left_entries":[],"next":null}`
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/undo/namespace?before=1700000000&namespace=ns":                                      {200, previewed},
		"GET /_botwired/undo/namespace?author=none&before=1700000000&namespace=ns":                          {200, `{"namespace":"ns","before":1700000000,"as_of":7,"restored":0}`},
		"GET /_botwired/undo/namespace?author=nobody&before=1700000000&namespace=ns":                        {200, `{"namespace":"ns","before":1700000000,"as_of":7,"author":"nobody","authors":{"":1,"agent":2}}`},
		"GET /_botwired/undo/namespace?author=nobody&before=1700000001&namespace=ns":                        {200, `{"namespace":"ns","before":1700000001,"as_of":7,"author":"nobody","authors":{}}`},
		"GET /_botwired/undo/namespace?author=agent&before=1700000001&namespace=ns":                         {200, `{"namespace":"ns","before":1700000001,"as_of":7,"author":"agent","authors":{"agent":1}}`},
		"GET /_botwired/undo/namespace?all_authors=true&before=9999999999&namespace=ns":                     {400, `{"detail":"before: so and so"}`},
		"POST /_botwired/undo/namespace?as_of=7&author=agent&before=1700000000.000000&namespace=ns":         {200, page},
		"POST /_botwired/undo/namespace?after=b&as_of=7&author=agent&before=1700000000.000000&namespace=ns": {200, last},
		"GET /_botwired/undo/namespace?before=1700000001&namespace=ns":                                      {409, `{"detail":"several programs. Name one with author, or take the writes of all with all_authors=true"}`},
	})
	wantOutput(t, at(t, d, nil, "undo", "ns", "--before", "1700000000", "--yes"),
		"undone: 1 entry restored, 1 entry deleted\nleft as it is: 1 entry\n  a: it was written after the preview\n")
	wantOutput(t, at(t, d, nil, "undo", "ns", "--before", "1700000000", "--yes", "--json"),
		`{"namespace":"ns","restored":1,"deleted":1,"same":1,"left":1,"left_entries":[{"key":"a","why":"it was written after the preview"}],"next":null}`+"\n")
	wantOutput(t, at(t, d, nil, "undo", "ns", "--before", "1700000000", "--dry-run"),
		"ns as it was at 2023-11-14T22:13:20Z, without the writes of agent since: 2 entries to restore, 1 entry to delete, 1 to leave: a, b, new.\n"+
			"left as it is: 1 entry\n  x: another host has written it since\n")
	for author, whose := range map[string]string{`""`: ", without the writes of programs without a name since", "null": ""} {
		d := newDaemon(t, map[string]answer{"GET /_botwired/undo/namespace?before=1700000000&namespace=ns": {200, strings.Replace(previewed, `"agent"`, author, 1)}})
		if got := at(t, d, nil, "undo", "ns", "--before", "1700000000", "--dry-run"); !strings.HasPrefix(got.stdout, "ns as it was at 2023-11-14T22:13:20Z"+whose+": 2 entries") {
			t.Errorf("%s: %+v", author, got)
		}
	}
	wantOutput(t, at(t, d, nil, "undo", "ns", "--before", "1700000000", "--dry-run", "--json"), previewed+"\n")
	wantOutput(t, at(t, d, nil, "undo", "ns", "--before", "1700000000", "--author", "none", "--yes"), "nothing to undo in ns since 2023-11-14T22:13:20Z\n")
	wantOutput(t, at(t, d, nil, "undo", "ns", "--before", "1700000000", "--author", "nobody", "--yes"), "nothing to undo in ns since 2023-11-14T22:13:20Z: "+
		"no write of nobody is known to have changed an entry since. These programs have written: a program without a name, agent\n")
	wantOutput(t, at(t, d, nil, "undo", "ns", "--before", "1700000001", "--author", "nobody", "--dry-run"),
		"nothing to undo in ns since 2023-11-14T22:13:21Z: no write of nobody is known to have changed an entry since\n")
	wantOutput(t, at(t, d, nil, "undo", "ns", "--before", "1700000001", "--author", "agent", "--yes"), "nothing to undo in ns since 2023-11-14T22:13:21Z\n")
	wantFailure(t, at(t, d, nil, "undo", "ns", "--before", "9999999999", "--all-authors", "--yes"), cli.ExitError, "before: so and so")
	wantFailure(t, at(t, d, nil, "undo", "ns", "--before", "-10m", "--yes"), cli.ExitUsage, `--before = "-10m": expected how long ago, such as 10m`)
	wantFailure(t, at(t, d, nil, "undo", "ns", "--before", "1700000001", "--yes"), cli.ExitError, "botwired: several programs. Name one with --author, or take the writes of all with --all-authors\n")
	for _, args := range [][]string{
		{"undo", "ns", "--before", "1700000000"}, {"undo", "ns", "--yes"}, {"undo", "ns", "k", "--before", "1", "--yes"},
		{"undo", "ns", "k", "--dry-run", "--yes"}, {"undo", "ns", "--before", "1", "--author", "a", "--all-authors", "--yes"},
		{"undo", "ns", "--before", "1", "--to", "3", "--yes"},
		{"undo", "ns", "--before", "yesterday", "--dry-run"},
	} {
		if got := at(t, d, nil, args...); got.code != cli.ExitUsage {
			t.Errorf("%q: %+v", args, got)
		}
	}
	reply := func(p *cli.Program) { onTerminal(p); p.Stdin = strings.NewReader("\n") }
	if got := at(t, d, reply, "undo", "ns", "--before", "1700000000"); got.code != cli.ExitError ||
		!strings.Contains(got.stderr, "1 to leave: a, b, new. Do it? [y/N]") || !strings.Contains(got.stderr, "nothing is changed") {
		t.Errorf("%+v", got)
	}
}
