package doctor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Checks run concurrently, and are shown in their order. A check that hangs fails at the limit, and
// delays nothing longer.
func TestRunAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		checks := []check{
			{name: "hangs", run: func(context.Context) []Finding { <-release; return nil }},
			{name: "slow", run: func(ctx context.Context) []Finding {
				<-ctx.Done()
				return []Finding{warn("slow", "wait", "stopped")}
			}},
			{name: "two", run: func(context.Context) []Finding {
				return []Finding{good("one", "fine"), none("other", "no %s", "such thing")}
			}},
		}
		began := time.Now()
		got := runAll(t.Context(), checks, 10*time.Second)
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("it took %s", took)
		}
		close(release)
		want := []Finding{
			{Name: "hangs", Result: Failed, Text: "no result within 10s"},
			{Name: "slow", Result: Warning, Text: "stopped", Remedy: "wait"},
			{Name: "one", Result: OK, Text: "fine"},
			{Name: "other", Result: NotApplicable, Text: "no such thing"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	})
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		cancel()
		got := runAll(ctx, []check{{name: "x", run: func(context.Context) []Finding { <-release; return nil }}}, time.Minute)
		close(release)
		if len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestWorst(t *testing.T) {
	for _, c := range []struct {
		found []Finding
		want  Result
	}{
		{nil, NotApplicable},
		{[]Finding{none("a", ""), good("b", "")}, OK},
		{[]Finding{warn("a", "", ""), good("b", "")}, Warning},
		{[]Finding{warn("a", "", ""), fail("b", "", ""), none("c", "")}, Failed},
	} {
		if got := Worst(c.found); got != c.want {
			t.Errorf("the worst of %+v is %s, not %s", c.found, got, c.want)
		}
	}
}
