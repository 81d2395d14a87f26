package main

import (
	"strings"
	"testing"
)

func TestPendingSend(t *testing.T) {
	const target = "POST /_botwired/pending/send?key=k&namespace=ns"
	for name, row := range map[string]struct {
		answer answer
		code   int
		parts  []string
	}{
		"settled": {answer{200, `{"seq":17,"namespace":"ns","key":"k","state":"settled","waits":null}`}, exitOK, []string{"write 17 to ns/k is settled\n"}},
		"dead":    {answer{200, `{"seq":17,"state":"dead","waits":null}`}, exitError, []string{"write 17 to ns/k is a dead letter now"}},
		"pending": {answer{504, `{"seq":17,"state":"pending","waits":{"why":"paused: HTTP 403","until":null}}`}, exitError, []string{"still pending", "paused: HTTP 403"}},
		"none":    {answer{404, `{"detail":"no such write to ns/k is pending"}`}, exitError, []string{"no write to ns/k is pending"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, map[string]answer{target: row.answer})
			got := at(t, d, nil, "pending", "send", "ns", "k")
			if row.code == exitOK {
				wantOutput(t, got, row.parts[0])
			} else {
				wantFailure(t, got, row.code, row.parts...)
			}
			if got := at(t, d, nil, "pending", "send", "ns", "k", "--json"); name != "none" && got.stdout != row.answer.body+"\n" {
				t.Errorf("as JSON: %q", got.stdout)
			}
		})
	}
	wantFailure(t, botwired(t, "pending", "send", "ns"), exitUsage, "pending send NAMESPACE KEY")
}

func TestPendingDrop(t *testing.T) {
	answers := map[string]answer{
		"GET /_botwired/pending?limit=10000&namespace=ns":        {200, `{"pending":[{"seq":16,"key":"other"},{"seq":17,"key":"k","op":"put","bytes":3}]}`},
		"POST /_botwired/pending/drop?key=k&namespace=ns":        {200, `{"dropped":true,"id":"18"}`},
		"POST /_botwired/pending/drop?key=k&namespace=ns&seq=17": {200, `{"dropped":true,"id":"17"}`},
		"POST /_botwired/pending/drop?key=none&namespace=ns":     {404, `{"detail":"no such write to ns/none is pending"}`},
	}
	d := newDaemon(t, answers)
	wantFailure(t, at(t, d, nil, "pending", "drop", "ns", "k"), exitUsage, "--yes")
	wantOutput(t, at(t, d, nil, "pending", "drop", "ns", "k", "--yes"), "dropped: it is dead letter 18 now; botwired dead-letters retry 18 brings it back\n")
	wantFailure(t, at(t, d, nil, "pending", "drop", "ns", "none", "--yes"), exitError, "no write to ns/none is pending")
	reply := func(text string) func(*process) {
		return func(p *process) { onTerminal(p); p.stdin = strings.NewReader(text) }
	}
	got := at(t, d, reply("y\n"), "pending", "drop", "ns", "k")
	if !strings.Contains(got.stderr, "Drop write 17 to ns/k (put, 3 bytes)? [y/N]") || !strings.Contains(got.stdout, "dead letter 17 now") {
		t.Errorf("%+v", got)
	}
	if got := at(t, d, reply("\n"), "pending", "drop", "ns", "k"); got.code != exitError || !strings.Contains(got.stderr, "nothing is dropped") {
		t.Errorf("without a yes: %+v", got)
	}
	wantFailure(t, at(t, d, reply("y\n"), "pending", "drop", "ns", "none"), exitError, "no write to ns/none is pending")
}
