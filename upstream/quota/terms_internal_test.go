package quota

import (
	"testing"
	"time"
)

func TestTermsOf(t *testing.T) {
	daily := Limit{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}
	for name, row := range map[string]struct {
		supply
		spread                  bool
		linger, ordinary        time.Duration // to the second, if they are that long
		prompt, demanded, least time.Duration
	}{
		"all is left":        {supply: supply{left: 1000, reserve: 50, timeLeft: day}},
		"a tenth in advance": {supply: supply{left: 905, reserve: 50, timeLeft: day}},
		"on the line":        {supply: supply{left: 500, reserve: 50, timeLeft: day / 2}},
		"below the line": {supply: supply{left: 750, reserve: 50, timeLeft: day},
			spread: true, linger: 115 * time.Second, ordinary: 115 * time.Second},
		"and the last write was a while ago": {supply: supply{left: 750, reserve: 50, timeLeft: day, sinceLast: time.Minute},
			spread: true, linger: 115 * time.Second, ordinary: 55 * time.Second},
		"or longer ago": {supply: supply{left: 750, reserve: 50, timeLeft: day, sinceLast: time.Hour},
			spread: true, linger: 115 * time.Second},
		"the reserve is used up": {supply: supply{left: 750, timeLeft: day},
			spread: true, linger: 115 * time.Second, ordinary: 115 * time.Second, prompt: 115 * time.Second},
		"next to nothing is left": {supply: supply{left: 60, reserve: 50, timeLeft: day},
			spread: true, linger: 15 * time.Minute, ordinary: 1440 * time.Second},
		"only the reserve is left": {supply: supply{left: 26, reserve: 26, timeLeft: day},
			spread: true, linger: 15 * time.Minute, ordinary: day / 2},
		"which gives way in time": {supply: supply{left: 26, reserve: 26, timeLeft: day / 2, sinceLast: day},
			spread: true, linger: 15 * time.Minute},
		"nothing is left": {supply: supply{timeLeft: time.Hour},
			spread: true, linger: 15 * time.Minute, ordinary: time.Hour, prompt: time.Hour, demanded: time.Hour + nextWindow},
		"a long linger of its own": {supply: supply{left: 750, reserve: 50, timeLeft: day, linger: time.Hour},
			spread: true, linger: time.Hour, ordinary: 115 * time.Second},
	} {
		row.quota = daily
		if row.supply.linger == 0 {
			row.supply.linger = 100 * time.Millisecond
		}
		if row.linger == 0 {
			row.linger = row.supply.linger
		}
		got := termsOf(row.supply)
		rounded := func(d time.Duration) time.Duration {
			if d < time.Second {
				return d
			}
			return d.Round(time.Second)
		}
		if got.Spread != row.spread || rounded(got.Linger) != row.linger || rounded(got.Ordinary) != row.ordinary ||
			rounded(got.Prompt) != row.prompt || got.Demanded != row.demanded || got.Ends != row.timeLeft {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Between ample and short, linger and gap grow gradually.
func TestTermsHaveNoSteps(t *testing.T) {
	s := supply{
		quota: Limit{Writes: 100_000, Period: 24 * time.Hour, MaxAge: time.Hour}, reserve: 5000,
		timeLeft: 12 * time.Hour, linger: 100 * time.Millisecond,
	}
	was := Terms{Linger: s.linger}
	for s.left = 60_000; s.left > 0; s.left -= 10 {
		now := termsOf(s)
		if now.Linger < was.Linger || now.Ordinary < was.Ordinary {
			t.Fatalf("of %d writes left: %+v, after %+v", s.left, now, was)
		}
		if s.left > 10_000 && now.Linger > was.Linger*11/10 {
			t.Fatalf("of %d writes left: %+v, after %+v", s.left, now, was)
		}
		was = now
	}
}
