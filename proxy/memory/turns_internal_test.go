package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/botwired/botwired/journal"
)

// A caller that leaves before its turn does not change the order of the others.
func TestACallerLeavesBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, id := newTurns(), journal.ID{Namespace: "n", Key: "k"}
		endFirst, err := turns.await(t.Context(), id)
		noError(t, err)
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := turns.await(gone, id); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that has left gets %v", err)
		}
		isThird := make(chan struct{})
		go func() {
			endThird, err := turns.await(t.Context(), id)
			noError(t, err)
			close(isThird)
			endThird()
		}()
		synctest.Wait()
		select {
		case <-isThird:
			t.Error("the third has its turn amid the first's")
		default:
		}
		endFirst()
		<-isThird
		synctest.Wait()
		if len(turns.last) != 0 {
			t.Errorf("%d turns are left", len(turns.last))
		}
	})
}
