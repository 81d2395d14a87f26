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

// check looks at one thing, or at several that depend on each other.
type check struct {
	name string
	// run returns what it finds. It should return when ctx ends. It may still be running when runAll
	// has returned: nothing interrupts a call to a disk that hangs.
	run func(ctx context.Context) []Finding
}

// runAll runs the checks concurrently, each for no longer than limit, and returns their findings in the
// order of the checks.
func runAll(ctx context.Context, checks []check, limit time.Duration) []Finding {
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { found[i] = c.within(ctx, limit) })
	}
	all.Wait()
	return slices.Concat(found...)
}

// within runs the check for no longer than limit. A check that returns nothing by then has failed.
func (c *check) within(ctx context.Context, limit time.Duration) []Finding {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found := make(chan []Finding, 1)
	go func() { found <- c.run(bounded) }()
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
	return []Finding{{Name: c.name, Result: Failed, Text: text}}
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

// good returns a finding that asks for nothing.
func good(name, format string, args ...any) Finding {
	return Finding{Name: name, Result: OK, Text: fmt.Sprintf(format, args...)}
}

// none returns the finding of a check that does not apply, and why.
func none(name, format string, args ...any) Finding {
	return Finding{Name: name, Result: NotApplicable, Text: fmt.Sprintf(format, args...)}
}

// warn returns a finding that a person should look at. The remedy is one line.
func warn(name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Result: Warning, Text: fmt.Sprintf(format, args...), Remedy: strings.TrimSpace(remedy)}
}

// fail returns a finding that keeps botwired from doing its work. The remedy is one line.
func fail(name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Result: Failed, Text: fmt.Sprintf(format, args...), Remedy: strings.TrimSpace(remedy)}
}
