package main

import (
	"strings"
	"testing"
)

func TestPrefetchCommand(t *testing.T) {
	for name, row := range map[string]struct {
		answer answer
		code   int
		text   string
	}{
		"all":         {answer{200, `{"namespace":"ns","keys":900,"fetched":12,"left":0,"complete":true}`}, exitOK, "900 keys can be read without upstream\n"},
		"large":       {answer{200, `{"namespace":"ns","keys":1000,"fetched":0,"left":0,"complete":false}`}, exitOK, "upstream has more keys than it lists"},
		"empty":       {answer{200, `{"namespace":"ns","keys":0,"fetched":0,"left":0,"complete":true}`}, exitOK, "upstream lists no keys of ns\n"},
		"outage":      {answer{503, `{"namespace":"ns","keys":0,"left":0,"detail":"upstream is unavailable: connection refused"}`}, exitError, "connection refused"},
		"no time":     {answer{504, `{"namespace":"ns","keys":900,"fetched":12,"left":888}`}, exitError, "888 values still to be fetched after 1ms; botwired goes on with it"},
		"not a name":  {answer{400, `{"detail":"Invalid namespace"}`}, exitError, "Invalid namespace"},
		"not its own": {answer{504, `{}`}, exitError, "HTTP 504"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, map[string]answer{
				"POST /_botwired/prefetch?namespace=ns&timeout=1s": row.answer, "POST /_botwired/prefetch?namespace=ns&timeout=1ms": row.answer,
			})
			args := []string{"prefetch", "ns"}
			if name == "no time" {
				args = append(args, "--timeout", "1ms")
			}
			got := at(t, d, onTerminal, args...)
			if text := got.stdout + got.stderr; got.code != row.code || !strings.Contains(text, row.text) {
				t.Errorf("exit %d: %q", got.code, text)
			}
			if got := at(t, d, nil, append(args, "--json")...); row.code == exitOK && got.stdout != row.answer.body+"\n" {
				t.Errorf("as JSON: %q", got.stdout)
			}
		})
	}
	wantFailure(t, botwired(t, "prefetch"), exitUsage, "prefetch NAMESPACE")
}

func TestStatusOfForeignWrites(t *testing.T) {
	body := `{"version":"1","pending":0,"namespaces":[{"namespace":"mine","pending":0,` +
		`"foreign_writes":{"found":3,"last_found_at":"2026-11-22T00:00:00Z","last_key":"k"}}]}`
	got := at(t, newDaemon(t, map[string]answer{"GET /_botwired/status": {200, body}}), nil, "status")
	want := "mine is set exclusive, and somebody else writes to it: 3 writes found, the last one of k at 2026-11-22T00:00:00Z"
	if got.code != exitOK || !strings.Contains(got.stdout, want) {
		t.Errorf("%+v\nlacks %q", got, want)
	}
}
