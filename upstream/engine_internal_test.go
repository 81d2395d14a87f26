package upstream

import (
	"errors"
	"fmt"
	"testing"
)

// An engine that fails without saying how may have carried the request out.
func TestAnErrorOfNoKindIsUnanswered(t *testing.T) {
	if got := errorOf(errors.New("broken")); got.Verdict != Unanswered || got.Reason != "broken" {
		t.Errorf("got %+v", got)
	}
	throttled := &Error{Verdict: Throttled}
	if got := errorOf(fmt.Errorf("putting: %w", throttled)); got != throttled {
		t.Errorf("got %+v, want the engine's own", got)
	}
	if got := errorOf(nil); got != nil {
		t.Errorf("got %+v for no error", got)
	}
}
