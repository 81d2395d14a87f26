package memory

import (
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/cache"
)

// The effect of each directive on an answer of an age, if answers are fresh for 10 s and absences for 2 s.
func TestDirectives(t *testing.T) {
	const absent, never = true, cache.Forever
	noErrors := usual
	noErrors.StaleIfError = 0
	for _, c := range []struct {
		header   string
		absent   bool
		age      time.Duration
		policy   cache.Policy
		want     cache.Freshness
		excluded bool
	}{
		{"max-stale", false, 5, usual, cache.Fresh, false},
		{"max-stale", false, 75, usual, cache.Stale, false},
		{"max-stale", false, 75, noErrors, cache.Stale, false},
		{"max-stale", false, never, usual, cache.Stale, false},
		{"max-stale", absent, 60, usual, cache.Stale, false},
		{"max-stale=60", false, 70, usual, cache.Stale, false},
		{"max-stale=60", false, 71, usual, cache.Worthless, true},
		{"max-stale=60", false, never, usual, cache.Worthless, true},
		{"max-stale=60", absent, 62, usual, cache.Stale, false},
		{"max-stale=60", absent, 63, usual, cache.Worthless, true},
		{"max-stale=0", false, 11, usual, cache.Worthless, true}, // even if it may be revalidated meanwhile
		{"max-stale=nonsense", false, 75, usual, cache.Fallback, false},
		{"max-stale=99999999999999999999", false, 1 << 30, usual, cache.Stale, false},
		{"max-age=4", false, 5, usual, cache.Worthless, true},
		{"max-age=4, max-stale=1", false, 5, usual, cache.Fresh, false},
		{"max-age=4, max-stale=1", false, 6, usual, cache.Worthless, true},
		{"max-age=100, max-stale=5", false, 16, usual, cache.Worthless, true},
		{"max-age=4, max-stale", false, 1000, usual, cache.Stale, false},
		{"min-fresh=5", false, 5, usual, cache.Fresh, false},
		{"min-fresh=5", false, 6, usual, cache.Worthless, true},
		{"min-fresh=0", false, 15, usual, cache.Stale, false},
		{"min-fresh=2", absent, 1, usual, cache.Worthless, true},
		{"min-fresh=99999999999", false, 0, cache.Policy{FreshFor: cache.Forever}, cache.Fresh, false},
		{"max-stale, min-fresh=5", false, 6, usual, cache.Worthless, true},
		{"max-stale, no-cache", false, 6, usual, cache.Worthless, true},
		{"no-store", false, 5, usual, cache.Fresh, false},
	} {
		d := ParseDirectives([]string{c.header})
		now := time.Unix(1<<33, 0)
		item := &cache.Item{Body: []byte("{}"), ConfirmedAt: time.Unix(0, 0)}
		if c.age != never {
			item.ConfirmedAt = now.Add(-c.age * time.Second)
		}
		if c.absent {
			item.Body = nil
		}
		if got, _, by := d.freshness(c.policy, item, item.ConfirmedAt, now); got != c.want || by != c.excluded {
			t.Errorf("%s, absent: %t, age %d: %d, excluded %t, want %d, %t", c.header, c.absent, c.age, got, by, c.want, c.excluded)
		}
		if got, age, by := d.freshness(c.policy, &cache.Item{}, time.Time{}, now); got != cache.Fresh || age != 0 || by {
			t.Errorf("%s of a pending write: %d, %s, %t", c.header, got, age, by)
		}
	}
}

// An unknown Age is left out: for a copy that the watch has shown to be outdated, and for one from before the clock was
// set back.
func TestAgeThatNobodyKnows(t *testing.T) {
	for name, confirmedAt := range map[string]time.Time{
		"outdated":           time.Unix(0, 0),
		"the clock set back": time.Now().Add(time.Hour),
	} {
		item := &cache.Item{Body: []byte("{}"), ConfirmedAt: confirmedAt}
		_, age, _ := AnyAge.freshness(usual, item, item.ConfirmedAt, time.Now())
		result := Result{Status: statusOK, Read: true, Source: FromFallback, Age: age, item: item}
		if got := string(result.AppendHeader(nil)); strings.Contains(got, "Age: ") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
