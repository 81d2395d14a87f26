package limit

import (
	"fmt"
	"testing"
	"time"
)

// The window grows by one a second, and is halved when more than a quarter of enough requests fail as
// under overload. It always holds at least one request and at most the limit.
func TestTheWindow(t *testing.T) {
	type ends struct {
		times            int
		pushed, answered bool
	}
	well := func(times int) ends { return ends{times, false, true} }
	pushed := func(times int) ends { return ends{times, true, false} }
	for _, c := range []struct {
		name string
		ends []ends // ten a second, each of another namespace
		want int
	}{
		{"nothing", nil, 16},
		{"all goes well", []ends{well(100)}, 16},
		{"pushed back", []ends{pushed(8)}, 8},
		{"failed for another reason", []ends{{100, false, false}}, 16},
		{"too few to tell", []ends{pushed(7)}, 16},
		{"a quarter", []ends{well(6), pushed(2)}, 16},
		{"more than a quarter", []ends{well(7), pushed(3)}, 8},
		{"it goes on", []ends{pushed(16)}, 4},
		{"there is always one", []ends{pushed(100)}, 1},
		{"a second", []ends{pushed(8), well(12)}, 9},
		{"three seconds", []ends{pushed(8), well(36)}, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, now, n := newWindow(16), time.Unix(1, 0), 0
			for _, e := range c.ends {
				for range e.times {
					r := &request{origin: origin{namespace: fmt.Sprint(n)}, sent: now}
					now = now.Add(time.Second / 10)
					w.takeIn(r, e.pushed, e.answered, now)
					n++
				}
			}
			if w.size != c.want {
				t.Errorf("the window is %d, want %d", w.size, c.want)
			}
		})
	}
}

// Requests sent before the window was halved, and requests of a namespace that keeps failing, do not
// affect its size.
func TestWhatSaysNothingOfTheWindow(t *testing.T) {
	w, now := newWindow(16), time.Unix(1, 0)
	for range 100 { // all sent at once
		w.takeIn(&request{sent: time.Unix(0, 0)}, true, false, now)
	}
	for range 100 { // and again
		now = now.Add(time.Second / 100)
		w.takeIn(&request{sent: now, failing: w.failing[origin{}]}, true, false, now)
	}
	if w.size != 8 {
		t.Errorf("the window is %d, want 8", w.size)
	}
}

// A namespace that keeps failing is remembered, however many others have failed before it.
func TestTheFailingAreBounded(t *testing.T) {
	w, now := newWindow(16), time.Unix(1, 0)
	fail := func(namespace string) {
		r := &request{origin: origin{namespace: namespace}, sent: now}
		r.failing = w.failing[r.origin]
		w.takeIn(r, true, false, now)
		now = now.Add(time.Second / 100)
	}
	for n := range 2 * remembered {
		fail(fmt.Sprint(n))
	}
	w.size = w.most
	for range 100 {
		fail("late")
	}
	if len(w.failing) > remembered || w.size < w.most/2 {
		t.Errorf("it knows %d that fail, and the window is %d", len(w.failing), w.size)
	}
}
