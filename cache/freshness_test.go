package cache_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/cache"
)

func TestJudge(t *testing.T) {
	policy := cache.Policy{FreshFor: 10, StaleWhileRevalidate: 20, StaleIfError: 50, AbsentFor: 5}
	forever := cache.Policy{FreshFor: 10, StaleIfError: cache.Forever}
	unlimited := cache.Policy{FreshFor: cache.Forever, StaleWhileRevalidate: 20, StaleIfError: 50, AbsentFor: cache.Forever}
	longer := cache.Policy{FreshFor: 10, StaleWhileRevalidate: 100, StaleIfError: 50}
	for _, c := range []struct {
		name    string
		policy  cache.Policy
		present bool
		age     time.Duration
		want    cache.Freshness
	}{
		{"young", policy, true, 0, cache.Fresh},
		{"last fresh moment", policy, true, 9, cache.Fresh},
		{"first stale moment", policy, true, 10, cache.Stale},
		{"last stale moment", policy, true, 29, cache.Stale},
		{"first fallback moment", policy, true, 30, cache.Fallback},
		{"last fallback moment", policy, true, 59, cache.Fallback},
		{"too old", policy, true, 60, cache.Worthless},
		{"as old as can be", policy, true, cache.Forever, cache.Worthless},
		{"no limit", forever, true, 1 << 60, cache.Fallback},
		{"no limit, as old as can be", forever, true, cache.Forever, cache.Fallback},
		{"stale for longer than fallback", longer, true, 109, cache.Stale},
		{"then worthless", longer, true, 110, cache.Worthless},
		{"absent", policy, false, 4, cache.Fresh},
		{"absence falls back", policy, false, 5, cache.Fallback},
		{"absence is never stale", longer, false, 0, cache.Fallback},
		{"last fallback moment of an absence", policy, false, 54, cache.Fallback},
		{"absence too old", policy, false, 55, cache.Worthless},
		{"absence without a limit", forever, false, 1 << 60, cache.Fallback},
		{"unlimited", unlimited, true, 1 << 60, cache.Fresh},
		{"unlimited absence", unlimited, false, 1 << 60, cache.Fresh},
		{"unlimited, as old as can be", unlimited, true, cache.Forever, cache.Worthless},
		{"nothing is fresh", cache.Policy{}, true, 0, cache.Worthless},
	} {
		if got := c.policy.Judge(c.present, c.age); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAgeByTheWallClock(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name      string
		confirmed time.Time
		want      time.Duration
	}{
		{"now", now, 0},
		{"before", now.Add(-time.Minute), time.Minute},
		{"corrected by a little", now.Add(time.Second), 0},
		{"clock set back", now.Add(time.Second + 1), cache.Forever},
		{"clock set back by a year", now.AddDate(1, 0, 0), cache.Forever},
		{"never", time.Time{}, cache.Forever},
		{"at the beginning of Unix time", time.Unix(0, 0), cache.Forever},
	} {
		if got := cache.Age(c.confirmed, now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The two clocks of a time.Time disagree after the wall clock was set, and after a suspension, when the
// monotonic clock stands still. The longer time counts.
func TestAgeByBothClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		confirmed := time.Now()
		time.Sleep(time.Minute)
		if got := cache.Age(confirmed, time.Now()); got != time.Minute {
			t.Errorf("age is %v", got)
		}
		// Suspended for an hour: only the wall clock shows it. A time without the monotonic part is
		// measured by the wall clock.
		wall := time.Now().Round(0).Add(time.Hour)
		if got := cache.Age(confirmed, wall); got != time.Hour+time.Minute {
			t.Errorf("age is %v", got)
		}
	})
}
