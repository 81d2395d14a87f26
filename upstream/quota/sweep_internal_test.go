package quota

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
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
			qs.Ended("ns")
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

// What was used of a quota counts when it is set again, even if processes without it came in between; what was used of
// a window that has ended meanwhile does not.
func TestAQuotaThatIsTakenAwayOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		fs := vfs.NewMem()
		var limit Limit
		start := func(writes int) *Quotas {
			limit = Limit{Writes: writes, Period: day}
			return New(Options{
				Of:     func(string) Limit { return limit },
				Ledger: OpenLedger("journal.quota", fs, slog.New(slog.DiscardHandler)),
				Logger: slog.New(slog.DiscardHandler),
			})
		}
		end := func(qs *Quotas) {
			if err := qs.Close(); err != nil {
				t.Fatal(err)
			}
		}
		qs := start(10)
		for range 10 {
			qs.Terms("ns", 0, 1)
			qs.Spend("ns", Ordinary)
			qs.Cover("ns")
			qs.Ended("ns")
		}
		end(qs)
		end(start(0))
		qs = start(0)
		limit.Writes = 10 // a reload
		if terms := qs.Terms("ns", 0, 1); terms.Demanded == 0 {
			t.Errorf("all is used, and the next write goes at once: %+v", terms)
		}
		end(qs)
		qs = start(0)
		time.Sleep(day)
		limit.Writes = 10
		if terms := qs.Terms("ns", 0, 1); terms.Demanded != 0 {
			t.Errorf("a new window has begun, and nothing is left: %+v", terms)
		}
		end(qs)
	})
}
