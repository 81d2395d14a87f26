package upstream

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/limit"
)

// contract 9: a read that is not made because upstream is down is made when upstream turns out to be
// back.
func TestReadsAreNotTurnedAwayFromAnUpstreamThatIsBack(t *testing.T) {
	id := journal.ID{Namespace: "ns", Key: "key"}
	for name, findBack := range map[string]func(*Circuit){
		"by a read":  func(reads *Circuit) { reads.Success(id, true) },
		"by a write": func(reads *Circuit) { reads.health.writes.Success(id, false) },
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(ReaderOptions{
				Health: NewHealth(HealthOptions{BackoffInitial: time.Minute, BackoffMax: time.Minute, Logger: slog.New(slog.DiscardHandler)}),
				Slots:  limit.NewSlots(1), BackoffInitial: time.Minute, BackoffMax: time.Minute, Patience: time.Second,
			})
			asked := 0
			ask := func() error { asked++; return nil }
			r.health.Failure(id, false, &Error{Verdict: Transient, Reason: "refused", Unreachable: true}, time.Now())
			failed, err := r.once(t.Context(), id, false, ask)
			if err != nil || failed == nil || !failed.unasked || asked != 0 {
				t.Fatalf("upstream is down, and a read is %+v, %v", failed, err)
			}
			if _, turned := r.again(failed, false); turned == nil || turned.Reason != "refused" {
				t.Errorf("upstream is down, and the read is turned away with %+v", turned)
			}
			findBack(r.health)
			if _, turned := r.again(failed, false); turned != nil {
				t.Errorf("upstream is back, and the read is turned away with %+v", turned)
			}
			if err := r.try(t.Context(), id, false, ask); err != nil || asked != 1 {
				t.Errorf("upstream is back, was asked %d times, and the read ends with %v", asked, err)
			}
		})
	}
}

// contract 16: a read that waits out an outage asks at growing intervals; another entry does not wait, and nobody does once upstream has answered.
func TestReadsOfAFailingEntryBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReader(ReaderOptions{
			Health: NewHealth(HealthOptions{BackoffInitial: 200 * time.Millisecond, BackoffMax: 30 * time.Second, Logger: slog.New(slog.DiscardHandler)}),
			Slots:  limit.NewSlots(4), BackoffInitial: 200 * time.Millisecond, BackoffMax: 30 * time.Second, Patience: 5 * time.Second,
		})
		bad, good := journal.ID{Namespace: "ns", Key: "bad"}, journal.ID{Namespace: "ns", Key: "good"}
		var asked []time.Time
		fail := func() error {
			asked = append(asked, time.Now())
			return &Error{Verdict: Transient, Reason: "HTTP 500"}
		}
		succeed := func() error { return nil }
		if err := r.try(t.Context(), bad, true, fail); err == nil {
			t.Fatal("a read that fails succeeds")
		}
		if n := len(asked); n < 4 || n > 14 {
			t.Errorf("one read that waits out an outage asks %d times in 5 s", n)
		}
		if first, last := asked[1].Sub(asked[0]), asked[len(asked)-2].Sub(asked[len(asked)-3]); last < first {
			t.Errorf("the waits shrink from %v to %v", first, last)
		}
		if err := r.try(t.Context(), good, false, succeed); err != nil {
			t.Errorf("another entry: %v", err)
		}
		time.Sleep(time.Second)
		for range 3 {
			if err := r.try(t.Context(), bad, false, succeed); err != nil {
				t.Errorf("once upstream answers: %v", err)
			}
		}
	})
}

// contract 9: while an entry hangs that has hung before, and others are answered, only its namespace is sick, also while a
// request for it is on its way.
func TestAnEntryThatHangsAgainIsNoNewsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := NewHealth(HealthOptions{BackoffInitial: 200 * time.Millisecond, BackoffMax: 30 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		r := NewReader(ReaderOptions{
			Health: health, Slots: limit.NewSlots(4), BackoffInitial: 200 * time.Millisecond, BackoffMax: 30 * time.Second, Patience: 5 * time.Second,
		})
		bad, good := journal.ID{Namespace: "bad", Key: "k"}, journal.ID{Namespace: "good", Key: "k"}
		hang := func() error {
			time.Sleep(15 * time.Second)
			return &Error{Verdict: Unanswered, Reason: "timeout"}
		}
		for round := range 5 {
			if err := r.try(t.Context(), good, false, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			go func() { _ = r.try(t.Context(), bad, false, hang) }()
			for second := range 20 {
				time.Sleep(time.Second)
				health.Writes().Success(good, false)
				now := health.Report()
				if _, sick := now.Sick["bad"]; round >= 2 && (len(now.Sick) != 1 || !sick) {
					t.Errorf("round %d, second %d: upstream is %s (%s), and sick is %v", round, second, now.State, now.Reason, now.Sick)
				}
			}
		}
	})
}
