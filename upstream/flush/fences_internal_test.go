package flush

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
)

func newConfirmed() *fences {
	return newFences(&Options{Engine: inexact{}, FenceJournal: &journal.Fence{}})
}

func numbered(i int) journal.Write {
	return journal.Write{ID: journal.ID{Namespace: "ns", Key: fmt.Sprint(i)}, Seq: uint64(i) + 1, Op: journal.Put}
}

// The number of remembered confirmations is bounded, and the latest is among them.
func TestConfirmedLatelyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConfirmed()
		const n = 3*mostLately + 7
		for i := range n {
			s.confirmed(numbered(i), time.Now(), 0)
			s.confirmed(numbered(i), time.Now(), 0)
		}
		if len(s.landed) != mostLately || len(s.ring) != mostLately {
			t.Errorf("%d entries are remembered, in %d places, want %d", len(s.landed), len(s.ring), mostLately)
		}
		for i := range n {
			if lately := i >= n-mostLately; s.applies(numbered(i)) == lately {
				t.Fatalf("write %d of %d is fenced: %v", i, n, lately)
			}
		}
	})
}

// Upstream's confirmation of a write replaces the fence of the entry's next one for a moment. An import is
// fenced all the same, and what is known to be upstream is no confirmation of a request.
func TestHowLongAConfirmationStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, imported := newConfirmed(), numbered(1)
		imported.Fenced = true
		s.confirmed(numbered(1), time.Now(), 0)
		s.confirmed(numbered(2), time.Time{}, 0)
		time.Sleep(lately)
		if s.applies(numbered(1)) || !s.applies(imported) || !s.applies(numbered(2)) || !s.applies(numbered(3)) {
			t.Error("a write just after a confirmation is fenced, or another one is not")
		}
		time.Sleep(time.Millisecond)
		if !s.applies(numbered(1)) {
			t.Error("a write is not fenced, though the last one was sent long ago")
		}
	})
}

// A write has the time that its clock shows now for when it was made.
func TestAWriteOfAClockThatWasSet(t *testing.T) {
	const day = 86400
	for name, row := range map[string]struct {
		set, ahead, want float64 // seconds; set is how far the clock was set forward between the first write and the second
	}{
		"as it stands":                     {0, 0, 0},
		"upstream's is another":            {0, day, day},
		"set back, and right now":          {-day, 0, -day},
		"set back, and wrong now":          {-day, day, 0},
		"set forward, and wrong now":       {day, -day, 0},
		"the machine stood still for that": {day, 0, 0},
		"it is only being adjusted":        {leastStep / 2, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSteps()
				s.wrote(1)
				s.behind -= row.set // the wall clock has moved on by that
				time.Sleep(time.Hour)
				s.wrote(2)
				first, second := s.now(1000, 1, row.ahead)-1000, s.now(1000, 2, row.ahead)-1000
				if math.Abs(first-row.want) > leastStep/2+1e-3 || math.Abs(second-row.ahead) > 1e-3 {
					t.Errorf("the write from before is moved by %f, want %f; the one from after by %f, want %f", first, row.want, second, row.ahead)
				}
			})
		})
	}
}

// A process that waits for a processor between the reading of its two clocks sees no step: its write does not get an earlier
// time.
func TestAProcessThatWaitsBetweenItsClocks(t *testing.T) {
	now, waits := 1000.0, 0.0
	s := &steps{clocks: func() (wall, monotonic float64) {
		wall = now
		now += waits
		waits = max(0, waits-1)
		return wall, now
	}}
	s.wrote(1)
	for _, waits = range []float64{0, leastStep, 2} {
		if got := s.now(0, 1, 0); got != 0 || len(s.past) != 0 {
			t.Errorf("the write is moved by %f, with %d steps", got, len(s.past))
		}
	}
}

// A clock that is set all the time takes no memory. The newest settings count.
func TestStepsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteps()
		const n = 3 * mostSteps
		for seq := range uint64(n) {
			s.wrote(seq)
			s.behind += 10 // the clock was set back
		}
		if s.wrote(n); len(s.past) != mostSteps {
			t.Errorf("%d settings are remembered", len(s.past))
		}
		for seq, want := range map[uint64]float64{n: 0, n - 1: -10, n - mostSteps: -10, 0: -10} {
			if got := s.now(0, seq, 0); math.Abs(got-want) > 1e-3 {
				t.Errorf("write %d is moved by %f, want %f", seq, got, want)
			}
		}
	})
}

// apart believes the clock that shows more time.
func TestApart(t *testing.T) {
	now := time.Now()
	for then, want := range map[time.Time]time.Duration{
		now.Add(-time.Second):          time.Second,
		now.Round(0).Add(-time.Minute): time.Minute, // only by the wall clock
		now.Round(0).Add(time.Minute):  time.Minute, // the wall clock was set back
	} {
		if got := apart(now, then); got != want {
			t.Errorf("%v are between them, want %v", got, want)
		}
	}
}
