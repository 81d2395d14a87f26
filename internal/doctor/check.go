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

// The results, from best to worst.
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

// check examines one thing, or several that depend on each other.
type check struct {
	name string
	// run returns the findings. It should return when ctx ends, but may still run after runAll has
	// returned: nothing interrupts a call to a disk that hangs.
	run func(ctx context.Context) []Finding
}

// runAll runs the checks concurrently, each for at most limit, and returns their findings in the order
// of the checks.
func runAll(ctx context.Context, checks []check, limit time.Duration) []Finding {
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { found[i] = c.within(ctx, limit) })
	}
	all.Wait()
	return slices.Concat(found...)
}

// within runs the check for at most limit. A check without a result by then has failed. If ctx ends,
// nobody reads the findings.
func (c *check) within(ctx context.Context, limit time.Duration) []Finding {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found := make(chan []Finding, 1)
	go func() { found <- c.run(bounded) }()
	select {
	case out := <-found:
		return out
	case <-ctx.Done():
		return nil
	case <-time.After(limit + endGrace):
		return []Finding{fail(c.name, "", "no result within %s", limit)}
	}
}

// endGrace is how long a check may take to return its findings after its limit.
const endGrace = 500 * time.Millisecond

// Worst returns the worst result of the findings.
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

// good returns a finding that needs no action.
func good(name, format string, args ...any) Finding {
	return Finding{Name: name, Result: OK, Text: fmt.Sprintf(format, args...)}
}

// none returns the finding of a check that does not apply. The text says why.
func none(name, format string, args ...any) Finding {
	return Finding{Name: name, Result: NotApplicable, Text: fmt.Sprintf(format, args...)}
}

// warn returns a finding that a user should look at. The remedy is one line.
func warn(name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Result: Warning, Text: fmt.Sprintf(format, args...), Remedy: strings.TrimSpace(remedy)}
}

// fail returns a finding that keeps botwired from working. The remedy is one line.
func fail(name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Result: Failed, Text: fmt.Sprintf(format, args...), Remedy: strings.TrimSpace(remedy)}
}
