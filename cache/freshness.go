package cache

import (
	"math"
	"time"
)

// Forever means no limit, as a [Policy]'s StaleIfError.
const Forever = time.Duration(math.MaxInt64)

// Policy says for how long an answer is good. All spans count from its confirmation.
type Policy struct {
	FreshFor             time.Duration // it answers without upstream being asked
	StaleWhileRevalidate time.Duration // after that, it answers while upstream is asked
	StaleIfError         time.Duration // after FreshFor, it answers when upstream cannot be asked
	AbsentFor            time.Duration // an absence answers; after that, StaleIfError counts for it
}

// Freshness is a judgement on an answer.
type Freshness uint8

// The judgements, from best to worst.
const (
	Fresh     Freshness = iota // answer
	Stale                      // answer, and ask upstream in the background
	Fallback                   // ask upstream; answer only if it cannot be asked
	Worthless                  // ask upstream; never answer
)

// Lifetime returns how long an answer stays fresh. present tells an entry or a listing from an absence.
func (p Policy) Lifetime(present bool) time.Duration {
	if present {
		return p.FreshFor
	}
	return p.AbsentFor
}

// Judge returns what an answer of the given age is good for. An answer of
// the age [Forever] is never fresh.
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

// Doubted returns the judgement on an answer that would be Fresh or Stale, while time may have passed
// unnoticed.
func (p Policy) Doubted() Freshness {
	if p.StaleIfError > 0 {
		return Fallback
	}
	return Worthless
}

// clockSlack is how far in the future a confirmation may lie and count as now: wall
// clocks are corrected by a little all the time.
const clockSlack = time.Second

// Age returns how long ago upstream confirmed something. It takes the longer of what
// the monotonic and the wall clock say, so that neither a suspended machine nor a clock
// set back makes an old answer young. It returns [Forever] for a confirmation of unknown age: one from the
// future, and one from the beginning of Unix time, which the journal gives to copies in doubt.
func Age(confirmedAt, now time.Time) time.Duration {
	wall := now.Round(0).Sub(confirmedAt.Round(0))
	if wall < -clockSlack || confirmedAt.Unix() <= 0 { // guard 19.8
		return Forever
	}
	return max(0, wall, now.Sub(confirmedAt)) // guard 19.9
}
