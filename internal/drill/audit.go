package drill

import (
	"fmt"
	"slices"
	"time"

	"github.com/botwired/botwired/api"
)

// Latency says how long callers waited, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// Phase is the audit of one phase.
type Phase struct {
	Name     string  `json:"name"`
	Upstream string  `json:"upstream"` // what happened to upstream, for people
	Seconds  float64 `json:"seconds"`

	Acknowledged int     `json:"acknowledged"` // writes
	Refused      int     `json:"refused"`      // reads and writes
	Unanswered   int     `json:"unanswered"`   // requests cut off when the daemon was killed
	Reads        int     `json:"reads"`        // each was checked
	Writes       Latency `json:"write_latency"`
	ReadLatency  Latency `json:"read_latency"`

	// Pending is how many acknowledged writes were pending at the end of the phase, and OldestPending
	// is the age of the oldest.
	Pending       int     `json:"pending"`
	OldestPending float64 `json:"oldest_pending_seconds"`
	// Recovery is how long after the end of the fault upstream had the first of the pending writes; nil
	// if that took too long, or if none was pending.
	Recovery *float64 `json:"recovery_seconds"`
	// Down is how long the daemon was down; nil if it was not killed.
	Down *float64 `json:"down_seconds"`

	writes, reads []time.Duration
}

// Books counts the acknowledged writes by outcome.
type Books struct {
	Acknowledged int `json:"acknowledged"`
	Settled      int `json:"settled"`
	Superseded   int `json:"superseded"`
	Pending      int `json:"pending"`
	Dead         int `json:"dead"`
	// Unaccounted writes have no receipt.
	Unaccounted int `json:"unaccounted"`
	// Unanswered writes do not count as acknowledged: they may or may not have been made.
	Unanswered int `json:"unanswered"`
}

// Balanced reports whether every acknowledged write is accounted for.
func (b *Books) Balanced() bool {
	return b.Acknowledged == b.Settled+b.Superseded+b.Pending+b.Dead
}

// Finding is a breach of the contract that the drill has seen.
type Finding struct {
	// Contract is the broken point of the contract.
	Contract  int    `json:"contract"`
	Phase     string `json:"phase"`
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Text      string `json:"text"`
	// Receipts are those of the last acknowledged writes to the entry, oldest first.
	Receipts []api.Receipt `json:"receipts"`
}

// Audit is the result of a drill.
type Audit struct {
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"`
	Phases  []Phase `json:"phases"`
	// Settling is how long it took, after the last fault, until nothing was pending.
	Settling float64 `json:"settling_seconds"`
	Books    Books   `json:"books"`
	Balanced bool    `json:"balanced"`
	// Compared is how many entries were compared upstream with their last acknowledged write, and
	// Different is how many of them differed.
	Compared  int       `json:"compared"`
	Different int       `json:"different"`
	Findings  []Finding `json:"findings"`
	// More is how many more findings there were.
	More int  `json:"more_findings"`
	OK   bool `json:"ok"`
	// Verdict is the result in one sentence.
	Verdict string `json:"verdict"`
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func latencyOf(took []time.Duration) Latency {
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	at := func(percent int) float64 { return milliseconds(took[(len(took)-1)*percent/100]) }
	return Latency{at(50), at(99), at(100)}
}

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// conclude sets the verdict.
func (a *Audit) conclude() {
	b := &a.Books
	a.Balanced = b.Balanced()
	a.OK = a.Balanced && len(a.Findings) == 0
	switch found := len(a.Findings) + a.More; {
	case a.OK:
		a.Verdict = fmt.Sprintf("The books balance: all %d acknowledged writes are accounted for, every read was true, and upstream holds what was acknowledged last.", b.Acknowledged)
	case !a.Balanced:
		a.Verdict = fmt.Sprintf("The books do not balance: %d acknowledged writes are not accounted for.", b.Acknowledged-b.Settled-b.Superseded-b.Pending-b.Dead)
	case found == 1:
		a.Verdict = "The books balance, but one thing happened that must not."
	default:
		a.Verdict = fmt.Sprintf("The books balance, but %d things happened that must not.", found)
	}
}
