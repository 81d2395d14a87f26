// Package doctor runs checks side by side, each with a time limit, and measures the disk for
// them: its file system, its room and how long it takes to make a write durable. It imports
// nothing of the project, and what its findings mean is the caller's to say.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Result is the outcome of a check.
type Result string

// The results, from the best to the worst.
const (
	NotApplicable Result = "not applicable"
	OK            Result = "ok"
	Warning       Result = "warning"
	Failed        Result = "failed"
)

// Finding is the result of one check.
type Finding struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"` // a command or a setting to copy; "" if there is nothing to do
}

// Check looks at one thing, or at several that depend on each other.
type Check struct {
	Name string
	// Run returns what it finds. It should return at the end of ctx. Run may still be at work
	// when Examine has returned: a disk that hangs lets nobody go.
	Run func(ctx context.Context) []Finding
}

// Examine runs the checks side by side, each for no longer than limit, and returns what they
// find in the order of the checks.
func Examine(ctx context.Context, checks []Check, limit time.Duration) []Finding {
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() { found[i] = within(ctx, check, limit) })
	}
	all.Wait()
	return slices.Concat(found...)
}

// within runs a check for no longer than limit. A check that returns nothing by then has
// failed.
func within(ctx context.Context, check Check, limit time.Duration) []Finding {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found := make(chan []Finding, 1)
	go func() { found <- check.Run(bounded) }()
	select {
	case out := <-found:
		return out
	case <-bounded.Done():
	}
	select { // the check may have noticed the end of ctx
	case out := <-found:
		return out
	case <-time.After(endGrace):
	}
	text := fmt.Sprintf("no result within %s", limit)
	if ctx.Err() != nil {
		text = "interrupted"
	}
	return []Finding{{Name: check.Name, Result: Failed, Text: text}}
}

// endGrace is how long a check may take to return after its limit, with what it has found.
const endGrace = 500 * time.Millisecond

// Worst returns the worst result of some findings.
func Worst(findings []Finding) Result {
	worst := NotApplicable
	for _, f := range findings {
		if rank[f.Result] > rank[worst] {
			worst = f.Result
		}
	}
	return worst
}

var rank = map[Result]int{NotApplicable: 0, OK: 1, Warning: 2, Failed: 3}

// Good returns a finding that asks for nothing.
func Good(name, format string, args ...any) Finding {
	return Finding{Name: name, Result: OK, Text: fmt.Sprintf(format, args...)}
}

// None returns the finding of a check that does not apply, and why.
func None(name, format string, args ...any) Finding {
	return Finding{Name: name, Result: NotApplicable, Text: fmt.Sprintf(format, args...)}
}

// Warn returns a finding that a person should look at. The remedy is one line.
func Warn(name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Result: Warning, Text: fmt.Sprintf(format, args...), Remedy: strings.TrimSpace(remedy)}
}

// Fail returns a finding that keeps botwired from doing its work. The remedy is one line.
func Fail(name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Result: Failed, Text: fmt.Sprintf(format, args...), Remedy: strings.TrimSpace(remedy)}
}

// Quantile returns the value of sorted times below which a share of them lies.
func Quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
