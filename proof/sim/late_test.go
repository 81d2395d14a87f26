package sim

import (
	"testing"

	"pgregory.net/rapid"
)

// Upstream may carry out a request that it did not answer until the late window has passed
// since its client gave up on it. The daemon sends nothing newer before, so that in the end
// upstream holds the newest state, or another host's later one (contract 14).
func TestLateArrivals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := scripts().Draw(rt, "script")
		for i := range s.steps {
			switch {
			case s.steps[i].action == become && s.steps[i].fault != healthy && i%2 == 0:
				s.steps[i].fault = later
			case s.steps[i].action == become:
				s.steps[i].fault = healthy
			case s.steps[i].action == forget:
				s.steps[i].action = foreign
				s.steps[i].id, s.steps[i].value = entries[i%len(entries)], "f"
			case s.steps[i].action == setBack: // here, other hosts write
				s.steps[i].action = wait
			}
		}
		if violation := play(t, s); violation != "" {
			rt.Fatalf("%s\nscript:\n%s", violation, s)
		}
	})
}
