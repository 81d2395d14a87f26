package upstream

import (
	"testing"
	"time"
)

// An upstream that carries out 8 requests at a time, all in the same time, answers some after
// one such time and some after two. The window falls also where these are just as many.
func TestTheWindowFallsWhereRoundTripsAreOfTwoKinds(t *testing.T) {
	const servers, each = 8, 50 * time.Millisecond
	w := newWindow(16)
	now := time.Unix(0, 0)
	var line []*slot
	least := w.slots()
	for range 10 * time.Second / each {
		for len(line) < w.slots() {
			line = append(line, &slot{namespace: "ns", sent: now, underWay: w.slots()})
		}
		now = now.Add(each)
		served := line[:min(servers, len(line))]
		line = line[len(served):]
		for _, r := range served {
			w.ended(r, nil, now)
		}
		least = min(least, w.slots())
	}
	if least > servers*3/2-1 {
		t.Errorf("the window was %d at least, where upstream carries out %d", least, servers)
	}
}

// Throttling and overload say that upstream has too much to do; other failures do not.
func TestWhatPushesBack(t *testing.T) {
	for _, c := range []struct {
		failed *Error
		pushes bool
	}{
		{nil, false},
		{&Error{Verdict: Throttled}, true},
		{&Error{Verdict: Transient}, false},
		{&Error{Verdict: Transient, Overloaded: true}, true},
	} {
		if got := c.failed.pushesBack(); got != c.pushes {
			t.Errorf("%+v pushes back: %t", c.failed, got)
		}
	}
}
