package upstream_test

import (
	"testing"
	"time"

	"github.com/botwired/botwired/upstream"
)

// A short upstream.timeout shortens the waits.
func TestPatienceAndPausesGoByTheTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration][3]time.Duration{
		time.Minute:      {5 * time.Second, 200 * time.Millisecond, 30 * time.Second},
		10 * time.Second: {5 * time.Second, 200 * time.Millisecond, 30 * time.Second},
		time.Nanosecond:  {0, time.Millisecond, time.Millisecond},
		2 * time.Second:  {time.Second, 40 * time.Millisecond, 6 * time.Second},
	} {
		first, longest := upstream.Pauses(timeout)
		if got := [3]time.Duration{upstream.Patience(timeout), first, longest}; got != want {
			t.Errorf("with %s for an attempt: %v, want %v", timeout, got, want)
		}
	}
}
