package identity

import (
	"fmt"
	"time"
)

// Reason says why a daemon doubts what it knows.
type Reason string

// The reasons, besides the kinds of a start.
const (
	Suspended  Reason = "suspended"
	Stopped    Reason = "stopped"
	ClockAhead Reason = "clock_ahead"
	ClockBack  Reason = "clock_back"
	Moved      Reason = "moved"
)

// reading holds the clocks' times at one moment.
type reading struct {
	wall time.Time // without a monotonic reading
	mono time.Duration
	boot time.Duration // the clock that runs during a suspension; 0 if it was not read
}

// clocks reads the process's clocks.
type clocks struct{ epoch time.Time }

func (c clocks) now() reading {
	now := time.Now()
	return reading{wall: now.Round(0), mono: now.Sub(c.epoch)}
}

const (
	// interval is how often [Watch.Run] reads the clocks.
	interval = time.Second
	// stillFor is the time between two readings from which the process counts as stopped: a busy
	// machine delays a reading by less.
	stillFor = 5 * time.Second
	// jump is how far the wall clock or the boot clock must move against the monotonic one between two
	// readings. Clock corrections move the wall clock by less.
	jump = 2 * time.Second
)

// since returns what happened since an earlier reading, and by how much: how long the process or the
// machine stood still, or how far the wall clock jumped. The reason is "" if nothing happened.
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

// text describes a reason for people.
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
