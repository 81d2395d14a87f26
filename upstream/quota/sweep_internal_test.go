package quota

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A quota that is taken away and given back within a window counts what was used before; no budget without one
// outlives its window.
func TestAQuotaThatIsTakenAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		quotas := map[string]Limit{"ns": {Writes: 10, Period: day}}
		qs := New(Options{
			Of: func(namespace string) Limit {
				if quota, ok := quotas[namespace]; ok {
					return quota
				}
				return Limit{Writes: 1, Period: day}
			},
			Logger: slog.New(slog.DiscardHandler),
		})
		for range 10 {
			qs.Terms("ns", 0, 1)
			qs.Spend("ns", Ordinary)
			qs.Landed("ns")
		}
		quotas["ns"] = Limit{}
		useOthers := func() {
			for i := range 10 {
				qs.Terms(fmt.Sprint("other", i), 0, 0)
			}
		}
		useOthers()
		quotas["ns"] = Limit{Writes: 10, Period: day}
		if terms := qs.Terms("ns", 0, 1); terms.Demanded == 0 {
			t.Errorf("all is used, and the next write goes at once: %+v", terms)
		}
		quotas["ns"] = Limit{}
		time.Sleep(2 * day)
		useOthers()
		if qs.budgets.Get("ns") != nil {
			t.Error("a budget without a quota stays")
		}
	})
}
