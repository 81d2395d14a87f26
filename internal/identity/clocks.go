package identity

import (
	"fmt"
	"time"
)

// Reason is why a daemon doubts what it knows.
type Reason string

// The reasons beside the kinds of a start.
const (
	Suspended  Reason = "suspended"
	Stopped    Reason = "stopped"
	ClockAhead Reason = "clock_ahead"
	ClockBack  Reason = "clock_back"
	Moved      Reason = "moved"
)

// reading holds the times of the clocks at one moment.
type reading struct {
	wall time.Time // without a monotonic reading
	mono time.Duration
	boot time.Duration // the clock that goes on during a suspension; 0 if it was not asked
}

// clocks read the process's clocks.
type clocks struct{ epoch time.Time }

func (c clocks) now() reading {
	now := time.Now()
	return reading{wall: now.Round(0), mono: now.Sub(c.epoch)}
}

const (
	// interval is how often [Watch.Run] looks at the clocks.
	interval = time.Second
	// stillFor is the time without a look after which the process counts as stopped: a busy
	// machine keeps it waiting for less.
	stillFor = 5 * time.Second
	// jump is how far the wall clock has to move against the monotonic one between two
	// looks. Corrections of the clock move it by less.
	jump = 2 * time.Second
)

// since returns what has happened after an earlier reading, and for how long. The reason is empty if
// nothing has.
func (now reading) since(past reading) (Reason, time.Duration) {
	passed := now.mono - past.mono
	moved := now.wall.Sub(past.wall) - passed
	slept := (now.boot - past.boot) - passed
	switch {
	case now.boot != 0 && past.boot != 0 && slept > jump:
		return Suspended, slept
	case moved > jump:
		return ClockAhead, moved
	case moved < -jump:
		return ClockBack, -moved
	case passed > stillFor:
		return Stopped, passed
	}
	return "", 0
}

// text describes a reason to people.
func (r Reason) text(by time.Duration) string {
	by = by.Round(time.Millisecond)
	switch r {
	case Suspended:
		return fmt.Sprintf("the machine was suspended for %v", by)
	case Stopped:
		return fmt.Sprintf("the process stood still for %v", by)
	case ClockBack:
		return fmt.Sprintf("the wall clock was set back by %v", by)
	}
	return fmt.Sprintf("the machine was suspended or the wall clock set: it is ahead by %v", by)
}
