package doctor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/doctor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Checks run side by side, and are shown in their order. A check that hangs has failed, and holds
// up nobody for longer than the limit.
func TestExamine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		checks := []doctor.Check{
			{Name: "hangs", Run: func(context.Context) []doctor.Finding { <-release; return nil }},
			{Name: "slow", Run: func(ctx context.Context) []doctor.Finding {
				<-ctx.Done()
				return []doctor.Finding{doctor.Warn("slow", "wait", "stopped")}
			}},
			{Name: "two", Run: func(context.Context) []doctor.Finding {
				return []doctor.Finding{doctor.Good("one", "fine"), doctor.None("other", "no %s", "such thing")}
			}},
		}
		began := time.Now()
		got := doctor.Examine(t.Context(), checks, 10*time.Second)
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("it took %s", took)
		}
		close(release)
		want := []doctor.Finding{
			{Name: "hangs", Result: doctor.Failed, Text: "no result within 10s"},
			{Name: "slow", Result: doctor.Warning, Text: "stopped", Remedy: "wait"},
			{Name: "one", Result: doctor.OK, Text: "fine"},
			{Name: "other", Result: doctor.NotApplicable, Text: "no such thing"},
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
		got := doctor.Examine(ctx, []doctor.Check{{Name: "x", Run: func(context.Context) []doctor.Finding { <-release; return nil }}}, time.Minute)
		close(release)
		if len(got) != 1 || got[0].Text != "interrupted" {
			t.Errorf("%+v", got)
		}
	})
}

func TestWorst(t *testing.T) {
	for _, c := range []struct {
		found []doctor.Finding
		want  doctor.Result
	}{
		{nil, doctor.NotApplicable},
		{[]doctor.Finding{doctor.None("a", ""), doctor.Good("b", "")}, doctor.OK},
		{[]doctor.Finding{doctor.Warn("a", "", ""), doctor.Good("b", "")}, doctor.Warning},
		{[]doctor.Finding{doctor.Warn("a", "", ""), doctor.Fail("b", "", ""), doctor.None("c", "")}, doctor.Failed},
	} {
		if got := doctor.Worst(c.found); got != c.want {
			t.Errorf("the worst of %+v is %s, not %s", c.found, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	times := []time.Duration{1, 2, 3, 4}
	if a, b, c := doctor.Quantile(times, 0.5), doctor.Quantile(times, 0.99), doctor.Quantile(nil, 0.5); a != 3 || b != 4 || c != 0 {
		t.Errorf("%d %d %d", a, b, c)
	}
}
