package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/drill"
)

// audited returns an audit with a finding.
func audited() *drill.Audit {
	down, back := 1.5, 0.25
	by := uint64(8)
	return &drill.Audit{
		Seed: 7, Seconds: 12.34, Compared: 4, Different: 1,
		Phases: []drill.Phase{
			{Name: "away", Upstream: "refuses connections", Acknowledged: 12, Reads: 20, Refused: 1, Pending: 4, OldestPending: 2, Recovery: &back},
			{Name: "killed", Upstream: "refuses connections", Down: &down, Unanswered: 1},
		},
		Books: drill.Books{Acknowledged: 12, Settled: 3, Superseded: 8, Unaccounted: 1, Unanswered: 1},
		Findings: []drill.Finding{{
			Contract: 13, Phase: "lies", Namespace: "drill", Key: "k", Text: "the receipt says settled",
			Receipts: []api.Receipt{{Seq: 7, Op: "put", State: "superseded", By: &by}, {Seq: 8, Op: "put", State: "settled"}},
		}},
		Verdict: "The books do not balance.",
	}
}

// The audit names what was wrong, and how to repeat the drill.
func TestDrillReport(t *testing.T) {
	plan := &drillPlan{lasts: 16 * time.Second, seed: 7}
	var stdout bytes.Buffer
	p := &Program{Terminal: term.Terminal{Stdout: &stdout, IsTerminal: func(any) bool { return false }}}
	err := reportDrill(p, audited(), plan, false)
	if err == nil || !strings.Contains(err.Error(), "do not balance. Once more: botwired drill --seed 7 --for 16s") {
		t.Error(err)
	}
	for _, part := range []string{
		"a throwaway daemon: 12.3 s, seed 7", "1 away", "upstream refuses connections", "0.2 s", "it answered again after 1.5 s, and had cut off 1 request",
		"12 writes", "MISSING", "breaks point 13 of the contract", "receipt 7 put superseded by 8", "receipt 8 put settled",
	} {
		if !strings.Contains(stdout.String(), part) {
			t.Errorf("no %q in\n%s", part, &stdout)
		}
	}
	stdout.Reset()
	var a drill.Audit
	if err := errors.Join(reportDrill(p, audited(), plan, true), json.Unmarshal(stdout.Bytes(), &a)); err == nil || len(a.Findings) != 1 {
		t.Errorf("%v in %s", err, &stdout)
	}
}
