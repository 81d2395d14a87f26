package quota

import (
	"testing"
	"time"
)

// A quota runs out at the pace of the window so far, or lasts.
func TestWhenAQuotaRunsOut(t *testing.T) {
	begins := time.Unix(0, 0).Add(20_000 * day)
	for name, row := range map[string]struct {
		used   int
		passed time.Duration
		want   time.Duration // since the window began; 0 if it lasts
	}{
		"nothing is used":                {0, 12 * time.Hour, 0},
		"it lasts":                       {400, 12 * time.Hour, 0},
		"it lasts exactly":               {500, 12 * time.Hour, 0},
		"it runs out":                    {500, 6 * time.Hour, 12 * time.Hour},
		"it runs out soon":               {900, 9 * time.Hour, 10 * time.Hour},
		"a burst after the beginning":    {50, time.Minute, 0},
		"a burst, and some time to tell": {50, 15 * time.Minute, 5 * time.Hour},
		"it is used up":                  {1000, 6 * time.Hour, 6 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			b := &budget{quota: Limit{Writes: 1000, Period: day}, used: row.used}
			now := begins.Add(row.passed)
			b.window = b.number(now)
			got := b.runsOut(now)
			if row.want == 0 && !got.IsZero() || row.want != 0 && !got.Equal(begins.Add(row.want)) {
				t.Errorf("%v, want %v after the beginning", got.Sub(begins), row.want)
			}
			if row.used == 1000 && !b.runsOut(now.Add(time.Hour)).Equal(got) {
				t.Error("it is not since then that nothing is left")
			}
		})
	}
}
