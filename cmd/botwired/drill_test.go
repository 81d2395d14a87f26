package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/drill"
	"github.com/botwired/botwired/proxy"
)

// audited is an audit with a finding.
func audited() *drill.Audit {
	down, back := 1.5, 0.25
	by := uint64(8)
	return &drill.Audit{
		Seed: 7, Namespace: "botwired-drill", Seconds: 12.34, Compared: 4, Different: 1,
		Phases: []drill.Phase{
			{Name: "away", Upstream: "refuses connections", Acknowledged: 12, Reads: 20, Refused: 1, Pending: 4, OldestPending: 2, Recovery: &back},
			{Name: "killed", Upstream: "refuses connections", Down: &down, Unanswered: 1},
		},
		Books: drill.Books{Acknowledged: 12, Settled: 3, Superseded: 8, Unaccounted: 1, Unanswered: 1},
		Findings: []drill.Finding{{
			Contract: 13, Phase: "lies", Namespace: "botwired-drill", Key: "k", Text: "the receipt says settled",
			Receipts: []drill.Receipt{{Seq: 7, Op: "put", State: "superseded", By: &by}, {Seq: 8, Op: "put", State: "settled"}},
		}},
		Verdict: "The books do not balance.",
	}
}

const upStatus = `{"version":"1","pending":0,"upstream":{"url":"https://botwire.dev","state":"up"}}`

func TestDrillOfTheRunningDaemon(t *testing.T) {
	body := `{"event":"started","name":"botwired-drill","steps":["away"]}` + "\n" + `{"event":"phase","name":"away","text":"is away"}` + "\n"
	line, err := json.Marshal(drill.Event{Event: drill.EventAudit, Audit: audited()})
	if err != nil {
		t.Fatal(err)
	}
	drilling := "POST /_botwired/drill?" + url.Values{"for": {"16s"}, "seed": {"7"}}.Encode()
	d := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, upStatus}, drilling: {200, body + string(line) + "\n"}})

	wantFailure(t, at(t, d, nil, "drill", "--live"), exitUsage, "--yes", "no terminal")
	refused := at(t, d, func(p *process) {
		p.isTerminal, p.stdin = func(any) bool { return true }, strings.NewReader("n\n")
	}, "drill", "--live")
	if refused.code != exitError || !strings.Contains(refused.stderr, "Other namespaces notice nothing") || !strings.Contains(refused.stderr, "nothing was drilled") {
		t.Errorf("%d: %s", refused.code, refused.stderr)
	}
	got := at(t, d, nil, "drill", "--live", "--yes", "--seed", "7")
	if got.code != exitError || !strings.Contains(got.stderr, "do not balance. Once more: botwired drill --seed 7 --for 16s --live") {
		t.Errorf("%d: %s", got.code, got.stderr)
	}
	for _, part := range []string{
		"a throwaway daemon: 12.3 s, seed 7", "1 away", "upstream refuses connections", "0.2 s", "it answered again after 1.5 s, and had cut off 1 request",
		"12 writes", "MISSING", "breaks contract 13: at least once, until known", "receipt 7 put superseded by 8", "receipt 8 put settled",
	} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("no %q in\n%s", part, got.stdout)
		}
	}
	asJSON := at(t, d, nil, "drill", "--live", "--yes", "--seed", "7", "--json")
	var a drill.Audit
	if err := json.Unmarshal([]byte(asJSON.stdout), &a); err != nil || asJSON.code != exitError || len(a.Findings) != 1 {
		t.Errorf("%d: %v in %s", asJSON.code, err, asJSON.stdout)
	}
}

func TestDrillRefuses(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/status":               {200, upStatus},
		"POST /_botwired/drill?for=5s&seed=1": {409, `{"detail":"a drill is under way"}`},
		"POST /_botwired/drill?for=5s&seed=2": {200, `{"event":"failed","text":"no"}` + "\n"},
		"POST /_botwired/drill?for=5s&seed=3": {200, `{"event":"started"}` + "\n"},
	})
	for want, args := range map[string]string{
		"a drill is under way": "--for 5s --seed 1", "could not go on: no": "--for 5s --seed 2", "without an audit": "--for 5s --seed 3",
	} {
		wantFailure(t, at(t, d, nil, append([]string{"drill", "--live", "--yes"}, strings.Fields(args)...)...), exitError, want)
	}
	wantFailure(t, at(t, d, nil, "drill", "--for", "1s"), exitUsage, "--for", "5s", "1h")
	wantFailure(t, at(t, d, nil, "drill", "--live", "--yes", "--for", "3m"), exitUsage, "--for", "2m")
}

// testDrill drills a throwaway daemon of the real program, and finds nothing.
func testDrill(t *testing.T, program string) {
	cmd, stderr := command(t.Context(), t, program, "drill", "--for", "5s", "--json")
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	stdout, err := cmd.Output()
	if err != nil || stderr.String() != "" {
		t.Errorf("%v: %s", err, stderr)
	}
	wantSound(t, string(stdout), 8)
}

// testLiveDrill drills a daemon in use, which has nothing of it left.
func testLiveDrill(t *testing.T, program string) {
	service := newMemoryService(t).up()
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url())
	got := at(t, &daemon{address: c.address}, nil, "drill", "--live", "--yes", "--for", "5s", "--json")
	wantSound(t, got.stdout, 4)
	if got.code != exitOK {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	service.wantEmpty(t)
}

// A drill whose writes wait for the quota would find fault with them.
func TestDrillNeedsQuota(t *testing.T) {
	const own = "botwired-drill"
	for name, test := range map[string]struct {
		limit int
		used  map[string]proxy.Quota
		want  string // in the error; "" is none
	}{
		"no quota":         {0, nil, ""},
		"unused":           {1000, nil, ""},
		"unused, and few":  {liveWrites - 1, nil, "leaves 51 writes"},
		"used up":          {1000, map[string]proxy.Quota{own: {Left: 1}}, "leaves 1 write of"},
		"another's":        {1000, map[string]proxy.Quota{"agent": {Left: 1}}, ""},
		"enough":           {1000, map[string]proxy.Quota{own: {Left: liveWrites, Linger: time.Second}}, ""},
		"spread over time": {1000, map[string]proxy.Quota{own: {Left: 400, Linger: 90 * time.Second}}, "wait 90s"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &sidecar{}
			d.config.Store(&config.Config{Policy: config.Policy{Quota: config.Quota{WritesPerDay: test.limit}}})
			l := &liveDrill{daemon: d, quotas: func() map[string]proxy.Quota { return test.used }}
			err := l.checkQuota(own)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func wantSound(t *testing.T, text string, phases int) {
	t.Helper()
	var a drill.Audit
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if !a.OK || len(a.Phases) != phases || a.Books.Settled == 0 || a.Books.Superseded == 0 || a.Left > 0 {
		t.Errorf("%s", text)
	}
}
