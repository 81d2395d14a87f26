package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

func TestRestoreCommand(t *testing.T) {
	const target = "POST /_botwired/restore?namespace=ns&timeout=1h0m0s"
	for name, row := range map[string]struct {
		answer answer
		code   int
		want   string
	}{
		"all":      {answer{200, `{"namespace":"ns","state":"over","restored":12,"kept":1,"failed":0,"left":0,"waits":null}`}, cli.ExitOK, "12 entries restored; upstream had another value of 1 entry, which stays\n"},
		"none":     {answer{200, `{"namespace":"ns","state":"over","restored":0,"kept":0,"failed":0,"left":0,"waits":null}`}, cli.ExitOK, "nothing to restore: upstream has lost nothing of ns (botwired status)\n"},
		"some":     {answer{200, `{"namespace":"ns","state":"over","restored":1,"kept":0,"failed":2,"left":0,"waits":null}`}, cli.ExitError, "upstream has refused 2 entries: see botwired dead-letters"},
		"uncopied": {answer{200, `{"namespace":"ns","state":"over","restored":0,"kept":0,"failed":0,"uncopied":3,"left":0,"waits":null}`}, cli.ExitError, "3 entries cannot be restored: upstream no longer has them, and there was no copy here"},
		"late":     {answer{504, `{"namespace":"ns","state":"running","restored":1,"kept":0,"failed":0,"left":3,"waits":{"why":"quota","until":null}}`}, cli.ExitError, "upstream does not have 3 entries yet: "},
		"down":     {answer{503, `{"detail":"upstream is unavailable"}`}, cli.ExitError, "upstream is unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, map[string]answer{target: row.answer})
			got := at(t, d, nil, "restore", "ns")
			if row.code == cli.ExitOK {
				wantOutput(t, got, row.want)
			} else if got.code != row.code || !strings.Contains(got.stderr, row.want) {
				t.Errorf("%+v", got)
			}
			if got := at(t, d, nil, "restore", "ns", "--json"); name == "all" && got.stdout != row.answer.body+"\n" {
				t.Errorf("as JSON: %q", got.stdout)
			}
		})
	}
}

func TestRestoreEntryCommand(t *testing.T) {
	const over = `{"namespace":"ns","state":"over","restored":%d,"kept":0,"failed":0,"left":0,"waits":null}`
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/restore?key=k&namespace=ns&timeout=1h0m0s":  {200, fmt.Sprintf(over, 1)},
		"POST /_botwired/restore?key=is&namespace=ns&timeout=1h0m0s": {200, fmt.Sprintf(over, 0)},
	})
	wantOutput(t, at(t, d, nil, "restore", "ns", "k"), "1 entry restored\n")
	wantOutput(t, at(t, d, nil, "restore", "ns", "is"), "nothing to restore: ns/is is not gone (botwired history)\n")
}

func TestForgetCommand(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/status":               {200, statusWith(t, `"namespaces":[{"namespace":"ns","data_loss":{"since":"2026-11-22T10:00:00Z","missing":40,"of":50}}]`)},
		"POST /_botwired/forget?namespace=ns": {200, `{"namespace":"ns","forgotten":40,"upstream_holds":10}`},
	})
	wantFailure(t, at(t, d, nil, "forget", "ns"), cli.ExitUsage, "--yes")
	wantOutput(t, at(t, d, nil, "forget", "ns", "--yes"), "40 entries forgotten; upstream lists 10 entries\n")
	reply := func(text string) func(*cli.Program) {
		return func(p *cli.Program) { onTerminal(p); p.Stdin = strings.NewReader(text) }
	}
	got := at(t, d, reply("y\n"), "forget", "ns")
	if !strings.Contains(got.stderr, "Upstream lacks 40 of 50. [y/N]") || !strings.Contains(got.stdout, "40 entries forgotten") {
		t.Errorf("%+v", got)
	}
	if got := at(t, d, reply("\n"), "forget", "ns"); got.code != cli.ExitError || !strings.Contains(got.stderr, "nothing is changed") {
		t.Errorf("without a yes: %+v", got)
	}
}

func TestPurgeCommand(t *testing.T) {
	const late = `{"namespace":"ns","done":false,"why":"deletes wait to be sent upstream","as_of":7,"deleted":2,"dropped":0,"pending":0,"removed":{"copies":0,"versions":0,"dead_letters":0,"receipts":0}}`
	const done = `{"namespace":"ns","done":true,"as_of":7,"deleted":1,"dropped":0,"pending":1,"removed":{"copies":1,"versions":4,"dead_letters":2,"receipts":3},"not_reached":["backups"]}`
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/status":                                 {200, statusWith(t, `"namespaces":[]`)},
		"POST /_botwired/purge?namespace=ns":                    {504, late},
		"POST /_botwired/purge?as_of=7&namespace=ns":            {200, done},
		"POST /_botwired/purge?key=k&namespace=down":            {503, `{"detail":"a purge deletes upstream first"}`},
		"POST /_botwired/purge?key=k&local=true&namespace=down": {200, done},
	})
	wantFailure(t, at(t, d, nil, "purge", "ns"), cli.ExitUsage, "--yes")
	wantFailure(t, at(t, d, nil, "purge", "down", "k", "--yes"), cli.ExitError, "upstream first")
	wantOutput(t, at(t, d, nil, "purge", "ns", "--yes"), "purged: the namespace ns. Deleted upstream: 3; removed here: copies 1, versions 4, dead letters 2, receipts 3\n"+
		"written meanwhile, and left: 1\nnot reached: backups\n")
	if got := at(t, d, nil, "purge", "down", "k", "--local", "--yes"); got.code != cli.ExitOK || !strings.Contains(got.stdout, "purged: down/k") {
		t.Errorf("%+v", got)
	}
}
