package upstream

import (
	"errors"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// contract 9: a read that is not made because upstream is down, and then learns that upstream is back,
// asks it.
func TestReadsAreNotTurnedAwayFromAnUpstreamThatIsBack(t *testing.T) {
	r := NewReader(ReaderOptions{BackoffInitial: time.Nanosecond, BackoffMax: time.Nanosecond, Patience: time.Second})
	id := journal.ID{Namespace: "ns", Key: "key"}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			default:
				r.health.failure(id, false, &Error{Verdict: Transient, Reason: "refused", Unreachable: true})
				r.health.admit(time.Now().Add(time.Minute)) // a probe is under way
				r.health.success(id, true)
			}
		}
	}()
	turned := 0
	for range 50_000 {
		err := r.try(t.Context(), id, false, func() error { return nil })
		if unavailable := new(Unavailable); errors.As(err, &unavailable) {
			if turned++; unavailable.Reason == "" {
				t.Error("upstream is back, and a read was turned away without a reason")
				break
			}
		}
	}
	close(over)
	<-ended
	if turned == 0 {
		t.Error("no read came during an outage")
	}
}
