package main

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// A user restores a bucket that has lost everything, one namespace after the other.
func TestRestoreAllCommand(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/restore?namespace=%2A":               {200, `{"lost":"the bucket was made anew","namespaces":["a","b","c"]}`},
		"POST /_botwired/restore?namespace=c&timeout=1h0m0s":  {200, `{"namespace":"c","state":"over","restored":0,"kept":0,"failed":0,"left":0,"waits":null}`},
		"POST /_botwired/restore?namespace=a&timeout=1h0m0s":  {200, `{"namespace":"a","state":"over","restored":12,"kept":0,"failed":0,"left":0,"waits":null}`},
		"POST /_botwired/restore?namespace=b&timeout=1h0m0s":  {200, `{"namespace":"b","state":"over","restored":1,"kept":1,"failed":0,"left":0,"waits":null}`},
		"POST /_botwired/restore?namespace=ns&timeout=1h0m0s": {200, `{}`},
	})
	wantOutput(t, at(t, d, nil, "restore", "--all"), "botwired goes on with the bucket as it is now (the bucket was made anew)\n"+
		"a: restored\nb: restored; upstream had another value of 1 entry, which stays\nc: restored\n")
	if got := at(t, d, nil, "restore", "--all", "--json"); !strings.Contains(got.stdout, `"namespaces":["a","b","c"]`) {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"restore"}, {"restore", "ns", "--all"}} {
		wantFailure(t, at(t, d, nil, args...), cli.ExitUsage, "--all")
	}
	d = newDaemon(t, map[string]answer{
		"POST /_botwired/restore?namespace=%2A":              {200, `{"lost":"","namespaces":["a","b"]}`},
		"POST /_botwired/restore?namespace=a&timeout=1h0m0s": {200, `{"namespace":"a","state":"over","restored":1,"kept":0,"failed":3,"left":0,"waits":null}`},
		"POST /_botwired/restore?namespace=b&timeout=1h0m0s": {200, `{"namespace":"b","state":"over","restored":2,"kept":0,"failed":0,"left":0,"waits":null}`},
	})
	got := at(t, d, nil, "restore", "--all")
	if got.code != cli.ExitError || !strings.Contains(got.stderr, "a: upstream has refused 3 entries") || got.stdout != "a: 1 entry restored\nb: restored\n" {
		t.Errorf("one that fails keeps no other back: %+v", got)
	}
	d = newDaemon(t, map[string]answer{"POST /_botwired/restore?namespace=%2A": {200, `{"lost":"","namespaces":[]}`}})
	wantOutput(t, at(t, d, nil, "restore", "--all"), "nothing to restore: upstream has lost nothing, or what it has lost is pending already (botwired status)\n")
}

func TestForgetUpstreamCommand(t *testing.T) {
	d := newDaemon(t, map[string]answer{"POST /_botwired/forget?namespace=%2A": {200, `{"lost":"the bucket was made anew","namespaces":[]}`}})
	wantFailure(t, at(t, d, nil, "forget", "--all"), cli.ExitUsage, "--yes")
	wantFailure(t, at(t, d, nil, "forget", "--all", "ns"), cli.ExitUsage, "--all")
	wantFailure(t, at(t, d, nil, "forget"), cli.ExitUsage, "--all")
	wantOutput(t, at(t, d, nil, "forget", "--all", "--yes"), "botwired goes on with the bucket as it is now\n")
	reply := func(text string) func(*cli.Program) {
		return func(p *cli.Program) { onTerminal(p); p.Stdin = strings.NewReader(text) }
	}
	if got := at(t, d, reply("y\n"), "forget", "--all"); !strings.Contains(got.stderr, "for good") || !strings.Contains(got.stdout, "goes on") {
		t.Errorf("%+v", got)
	}
	if got := at(t, d, reply("\n"), "forget", "--all"); got.code != cli.ExitError || !strings.Contains(got.stderr, "nothing is changed") {
		t.Errorf("without a yes: %+v", got)
	}
	d = newDaemon(t, map[string]answer{"POST /_botwired/forget?namespace=%2A": {200, `{"lost":"","namespaces":[]}`}})
	wantOutput(t, at(t, d, nil, "forget", "--all", "--yes"), "nothing to decide: upstream has lost nothing that botwired knows of\n")
}

// The status shows the state of the watch.
func TestStatusOfAWatch(t *testing.T) {
	for watch, want := range map[string][]string{
		"null": nil,
		`{"caught_up":true,"since":"2026-11-23T08:00:00Z","entries":2,"bytes":2048,"bucket":"botwire","server":"nats://127.0.0.1:4222"}`: {"watch ", "the bucket botwire at nats://127.0.0.1:4222, caught up", "2 entries", "2.0KiB"},
		`{"caught_up":false,"since":"2026-11-23T08:00:00Z","reason":"the connection is lost","entries":2,"bytes":2048}`:                  {"watch ", "broken", "the connection is lost", "cache.fresh_for"},
		`{"caught_up":false,"since":"2026-11-23T08:00:00Z","entries":0,"bytes":0,"lost":"the bucket botwire was made anew"}`:             {"watch ", "broken", "made anew"},
	} {
		d := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, statusWith(t, `"upstream":{"url":"nats://127.0.0.1:4222","state":"up","watch":`+watch+`}`)}})
		got := at(t, d, nil, "status")
		for _, part := range want {
			if !strings.Contains(got.stdout, part) {
				t.Errorf("%s: %q is not in %s", watch, part, got.stdout)
			}
		}
		if want == nil && (got.code != cli.ExitOK || strings.Contains(got.stdout, "watch")) {
			t.Errorf("%+v", got)
		}
	}
}
