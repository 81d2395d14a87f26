package flush

import (
	"math"
	"sync"
	"time"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/schedule"
)

// clock returns instants. Jumps of the wall clock do not affect it (contract 19).
type clock struct {
	epoch time.Time // the origin of its instants
}

func (c clock) now() schedule.Instant { return c.instant(time.Now()) }

// instant converts t to this clock; the zero time becomes 0.
func (c clock) instant(t time.Time) schedule.Instant {
	if t.IsZero() {
		return 0
	}
	return max(1, schedule.Instant(t.Sub(c.epoch))+1)
}

// wall converts an instant to the wall clock; 0 becomes the zero time.
func (c clock) wall(at schedule.Instant) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return c.epoch.Add(time.Duration(at) - 1).Round(0)
}

const (
	// leastStep is how far the wall clock must have moved against the monotonic one to count as set, in
	// seconds. Slewing moves both.
	leastStep = 0.1
	// mostSteps bounds how many settings of the clock are remembered.
	mostSteps = 8
)

// steps remembers how the wall clock was set while writes were pending, so that a write's time can be told by
// the clock as it is now (contract 17). Its methods may be called concurrently.
type steps struct {
	clocks func() (wall, monotonic float64) // in seconds; the first is read first

	mu     sync.Mutex
	newest uint64  // this host's latest write
	behind float64 // wall minus monotonic time in seconds, since the wall clock was last set
	past   []step  // before that, oldest first
}

// step is a period between two settings of the wall clock.
type step struct {
	upTo   uint64 // the last write made in it
	behind float64
}

func newSteps() *steps {
	epoch := time.Now()
	return &steps{behind: upstream.Unix(epoch), clocks: func() (wall, monotonic float64) {
		now := time.Now()
		return upstream.Unix(now), now.Sub(epoch).Seconds()
	}}
}

// wrote records that this host has just made the write seq.
func (s *steps) wrote(seq uint64) {
	now := s.moment()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(now)
	s.newest = max(s.newest, seq)
}

// moment returns how far the wall clock is ahead of the monotonic one. A machine that stands still between the reading of the
// one and of the other, as a busy one may, does not make that a step.
func (s *steps) moment() (behind float64) {
	for _, before := s.clocks(); ; {
		wall, after := s.clocks()
		if after-before < leastStep/2 { // guard 19.23
			return wall - after
		}
		before = after
	}
}

func (s *steps) look(behind float64) {
	if math.Abs(behind-s.behind) < leastStep {
		return
	}
	s.past = append(s.past, step{s.newest, s.behind})
	s.past = s.past[max(0, len(s.past)-mostSteps):]
	s.behind = behind
}

// now returns a time that the wall clock showed as the write seq was made, by a clock that is ahead of the wall
// clock as it runs now. If the wall clock was set forward since, and is right now, the machine stood still
// for that long: the time stays.
func (s *steps) now(at float64, seq uint64, ahead float64) float64 {
	now := s.moment()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(now)
	set := 0.0
	for _, p := range s.past {
		if seq <= p.upTo { // guard 19.20
			set = now - p.behind
			break
		}
	}
	if ahead == 0 {
		set = min(set, 0) // guard 19.19
	}
	return at + set + ahead
}
