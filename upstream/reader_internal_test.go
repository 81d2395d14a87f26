package upstream

import (
	"log/slog"
	"testing"
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
