package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/drill"
)

// The audit names what was wrong, and how to repeat the drill.
func TestDrillReport(t *testing.T) {
	audit := &drill.Audit{
		Seed: 7, Seconds: 12.34, Acknowledged: 12, Settled: 3, Superseded: 8, Lost: 1, Compared: 4, Different: 1,
		Phases:   []drill.Phase{{Name: "away", Upstream: "refuses connections", Acknowledged: 12, Reads: 20, Pending: 4}},
		Findings: []drill.Finding{{Contract: 13, Phase: "lies", Namespace: "drill", Key: "k", Text: "the receipt says settled"}},
	}
	var stdout bytes.Buffer
	p := &Program{Terminal: term.Terminal{Stdout: &stdout, IsTerminal: func(any) bool { return false }}}
	err := reportDrill(p, audit, 16*time.Second, false)
	if err == nil || !strings.Contains(err.Error(), "1 thing that must not be. Once more: botwired drill --seed 7 --for 16s") {
		t.Error(err)
	}
	for _, part := range []string{
		"a throwaway daemon: 12.3 s, seed 7", "refuses connections", "12 writes", "3 of 4 entries as acknowledged last",
		"1. point 13 of the contract, phase lies, drill/k: the receipt says settled",
	} {
		if !strings.Contains(stdout.String(), part) {
			t.Errorf("no %q in\n%s", part, &stdout)
		}
	}
	stdout.Reset()
	var a drill.Audit
	if err := errors.Join(reportDrill(p, audit, time.Minute, true), json.Unmarshal(stdout.Bytes(), &a)); err == nil || len(a.Findings) != 1 {
		t.Errorf("%v in %s", err, &stdout)
	}
}
