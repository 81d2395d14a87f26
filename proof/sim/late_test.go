package sim

import (
	"testing"

	"pgregory.net/rapid"
)

// Upstream may sit on a request for longer than the late window. As long as the
// read-back is not over, the daemon repairs what lands then (contract 14).
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
