package flush

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/fence"
)

func confirmedBy(linger time.Duration) *fences {
	return newFences(&Options{
		Engine: inexact{}, FenceJournal: &journal.Fence{}, Fence: func(string) bool { return true },
		Linger: func(string) time.Duration { return linger }, Offset: fence.NewOffset(),
	})
}

func numbered(i int) journal.Write {
	return journal.Write{ID: journal.ID{Namespace: "ns", Key: fmt.Sprint(i)}, Seq: uint64(i) + 1, Op: journal.Put}
}

// The number of remembered confirmations is bounded, and the latest is among them.
func TestConfirmedLatelyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := confirmedBy(time.Millisecond)
		const n = 3*mostLately + 7
		for i := range n {
			s.confirmed(numbered(i), time.Now(), time.Now())
			s.confirmed(numbered(i), time.Now(), time.Now())
		}
		if len(s.landed) != mostLately || len(s.ring) != mostLately {
			t.Errorf("%d entries are remembered, in %d places, want %d", len(s.landed), len(s.ring), mostLately)
		}
		for i := range n {
			if lately := i >= n-mostLately; s.applies(numbered(i), 0) == lately {
				t.Fatalf("write %d of %d is fenced: %v", i, n, lately)
			}
		}
		s.all(numbered(n - 1).Seq)
		later := numbered(n - 1)
		later.Seq++
		if !s.applies(numbered(n-1), 0) || !s.applies(later, 0) {
			t.Error("a write is not fenced, though the entry was confirmed before others may have written")
		}
		if _, ok := s.last(later.ID); !ok {
			t.Error("this host's own write is forgotten")
		}
	})
}

// Upstream's confirmation of an entry replaces a fence for a moment.
func TestHowLongAConfirmationStands(t *testing.T) {
	for _, row := range []struct{ linger, trip, stands time.Duration }{
		{100 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond},
		{100 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond},
		{time.Hour, 50 * time.Millisecond, mostLinger},
		{0, time.Minute, fenceAge},
		{0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := confirmedBy(row.linger)
			s.confirmed(numbered(1), time.Now(), time.Now())
			time.Sleep(row.stands)
			within := s.applies(numbered(1), row.trip)
			time.Sleep(time.Millisecond)
			if after := s.applies(numbered(1), row.trip); within || !after {
				t.Errorf("%+v: it is fenced by then: %v; and after that: %v", row, within, after)
			}
		})
	}
}

// A confirmation says nothing about the moment at which it is read if the process stopped meanwhile, or
// the daemon began to doubt its identity.
func TestConfirmationsThatTookLong(t *testing.T) {
	for name, row := range map[string]struct {
		took    time.Duration
		doubted bool
		fenced  bool
	}{
		"at once": {time.Second, false, false}, "long": {fenceAge + time.Millisecond, false, true}, "at a doubt": {time.Second, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := confirmedBy(mostLinger), numbered(1)
				sent := time.Now()
				time.Sleep(row.took)
				if row.doubted {
					s.all(0)
				}
				s.confirmed(w, sent, time.Now())
				if got := s.applies(w, 0); got != row.fenced {
					t.Errorf("the next write is fenced: %v", got)
				}
			})
		})
	}
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

// appended is a journal that keeps only the last write.
type appended struct {
	Journal
	last journal.NewWrite
}

func (a *appended) Append(w journal.NewWrite) (journal.Write, error) {
	a.last = w
	return journal.Write{}, nil
}

// A winner's copy has a valid, comparable time, even if nothing is known of the clocks.
func TestTheTimeOfAWinnersCopy(t *testing.T) {
	j, s := &appended{}, newFences(&Options{Engine: inexact{}, Offset: fence.NewOffset()})
	for lost, shown := range map[float64]float64{900: 1000, 1100: 1100} {
		err := s.guard(j, journal.Write{UpdatedAt: lost}, upstream.Version{WrittenAt: 1000})
		if err != nil || j.last.WrittenAt != 1 || j.last.At != shown {
			t.Errorf("it is of %f, and shown as of %f after %f, %v", j.last.WrittenAt, j.last.At, lost, err)
		}
	}
}
