package sim

import (
	"testing"

	"pgregory.net/rapid"
)

// The late window is how long upstream is thought to be able to sit on a request, and
// what it does later still, until the read-back is over, is repaired (contract 14).
func TestLaterThanTheLateWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := scripts().Draw(rt, "script")
		for i := range s {
			if s[i].action == become {
				s[i].duration *= 2 // up to 58 s: the late window and the read-back are a minute
			}
		}
		if violation := play(t, s); violation != "" {
			rt.Fatalf("%s\nscript:\n%s", violation, s)
		}
	})
}
