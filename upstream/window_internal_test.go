package upstream

import (
	"fmt"
	"testing"
	"time"
)

// The window grows by one a second, is halved when more than a quarter of enough requests fail as
// an overload does, and never holds less than one request or more than there may be.
func TestTheWindow(t *testing.T) {
	unanswered, overloaded := &Error{Verdict: Unanswered}, &Error{Verdict: Transient, Overloaded: true}
	type ends struct {
		times  int
		failed *Error
	}
	for _, c := range []struct {
		name string
		ends []ends // ten a second, each of a namespace of its own
		want int
	}{
		{"nothing", nil, 16},
		{"all goes well", []ends{{100, nil}}, 16},
		{"no answer", []ends{{8, unanswered}}, 8},
		{"overloaded", []ends{{8, overloaded}}, 8},
		{"throttled", []ends{{100, &Error{Verdict: Throttled, Answered: true}}}, 16},
		{"failed for another reason", []ends{{100, &Error{Verdict: Transient}}}, 16},
		{"too few to tell", []ends{{7, unanswered}}, 16},
		{"a quarter", []ends{{6, nil}, {2, unanswered}}, 16},
		{"more than a quarter", []ends{{7, nil}, {3, unanswered}}, 8},
		{"it goes on", []ends{{16, unanswered}}, 4},
		{"there is always one", []ends{{100, unanswered}}, 1},
		{"a second", []ends{{8, unanswered}, {12, nil}}, 9},
		{"three seconds", []ends{{8, unanswered}, {36, nil}}, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, now, n := newWindow(16), time.Unix(1, 0), 0
			for _, e := range c.ends {
				for range e.times {
					r := &slot{namespace: fmt.Sprint(n), sent: now}
					now = now.Add(time.Second / 10)
					w.takeIn(r, e.failed, now)
					n++
				}
			}
			if w.size != c.want {
				t.Errorf("the window is %d, want %d", w.size, c.want)
			}
		})
	}
}

// Requests that left before the window was halved, and those of a namespace that goes on failing,
// say nothing of its size.
func TestWhatSaysNothingOfTheWindow(t *testing.T) {
	w, now := newWindow(16), time.Unix(1, 0)
	failed := &Error{Verdict: Unanswered}
	for range 100 { // all sent at once
		w.takeIn(&slot{sent: time.Unix(0, 0)}, failed, now)
	}
	for range 100 { // and again
		now = now.Add(time.Second / 100)
		w.takeIn(&slot{sent: now, failing: w.failing[origin{}]}, failed, now)
	}
	if w.size != 8 {
		t.Errorf("the window is %d, want 8", w.size)
	}
}
