package cache

import (
	"math"
	"time"
)

// Forever means no limit for [Policy].StaleIfError.
const Forever = time.Duration(math.MaxInt64)

// Policy says how long an answer may be used. All durations count from its confirmation.
type Policy struct {
	FreshFor             time.Duration // answer without asking upstream
	StaleWhileRevalidate time.Duration // after FreshFor, answer while asking upstream
	StaleIfError         time.Duration // after FreshFor, answer if upstream cannot be asked
	AbsentFor            time.Duration // like FreshFor, for an absent entry; StaleIfError applies after it
}

// Freshness is the judgement of an answer.
type Freshness uint8

// The judgements, from best to worst.
const (
	Fresh     Freshness = iota // answer
	Stale                      // answer, and ask upstream in the background
	Fallback                   // ask upstream; answer only if upstream cannot be asked
	Worthless                  // ask upstream; never answer
)

// Lifetime returns how long an answer stays fresh. present is false for an absent entry.
func (p Policy) Lifetime(present bool) time.Duration {
	if present {
		return p.FreshFor
	}
	return p.AbsentFor
}

// Judge returns how an answer of the given age may be used. An answer of age [Forever] is never fresh.
func (p Policy) Judge(present bool, age time.Duration) Freshness {
	fresh, stale := p.Lifetime(present), p.StaleWhileRevalidate
	if !present {
		stale = 0
	}
	switch {
	case age < fresh: // guard 9.4
		return Fresh
	case age < Forever && age-fresh < stale:
		return Stale
	case p.StaleIfError == Forever || age < Forever && age-fresh < p.StaleIfError:
		return Fallback
	}
	return Worthless
}

// Doubted returns the judgement for an answer that would be Fresh or Stale, but whose age is uncertain
// because time may have passed unnoticed.
func (p Policy) Doubted() Freshness {
	if p.StaleIfError > 0 {
		return Fallback
	}
	return Worthless
}

// clockSlack is how far in the future a confirmation may be and still count as now, because wall clocks
// are corrected a little all the time.
const clockSlack = time.Second

// Age returns how long ago upstream confirmed something. It takes the longer of the monotonic and the
// wall clock's time, so that neither a suspended machine nor a clock set back makes an old answer
// young. It returns [Forever] for a confirmation of unknown age: one in the future, or one from the
// beginning of Unix time, which the journal gives to a listing that may have changed unseen.
func Age(confirmedAt, now time.Time) time.Duration {
	wall := now.Round(0).Sub(confirmedAt.Round(0))
	if wall < -clockSlack || confirmedAt.Unix() <= 0 { // guard 19.8
		return Forever
	}
	return max(0, wall, now.Sub(confirmedAt)) // guard 19.9
}
