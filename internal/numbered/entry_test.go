package numbered_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/numbered"
)

// An entry accepts exactly the answers that may be true.
func TestEntry(t *testing.T) {
	e := numbered.NewEntry("ns", "k")
	judge := func(about string, oldest int, text string, found, allowed bool) {
		t.Helper()
		if err := e.Show(oldest, text, found); (err == nil) != allowed {
			t.Errorf("%s: %v", about, err)
		}
	}
	text := func(n int) string { return numbered.Value("k", n, 30) }

	judge("absent at first", e.Oldest(), "", false, true)
	first := e.Begin(false)
	judge("a write under way is seen", 0, text(first), true, true)
	judge("and does not vanish", e.Oldest(), "", false, false)
	e.Acknowledged(first)
	second := e.Begin(false)
	e.Refused(second)
	judge("a refused write is seen", e.Oldest(), text(second), true, false)
	third := e.Begin(true)
	judge("a delete under way", e.Oldest(), "", false, true)
	judge("what it deleted comes back", e.Oldest(), text(first), true, false)
	judge("a read that began before it", first, text(first), true, true)
	e.Acknowledged(third)
	if there, known, _ := e.Certain(); there || !known {
		t.Error("the entry is not known to be absent")
	}
	e.Begin(false)
	if _, known, _ := e.Certain(); known {
		t.Error("a write under way leaves no doubt")
	}
	judge("a write that nobody made", e.Oldest(), text(9), true, false)
	judge("half a value", e.Oldest(), text(4)[:20]+"x", true, false)
	judge("another key's value", e.Oldest(), numbered.Value("j", 4, 30), true, false)
}

// An entry that may have lost its last writes accepts what it was before, and nothing older.
func TestEntryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := numbered.NewEntry("ns", "k")
		for range 3 {
			e.Acknowledged(e.Begin(false))
			time.Sleep(time.Second)
		}
		for ago, want := range map[time.Duration]int{0: 3, 1500 * time.Millisecond: 2, 2500 * time.Millisecond: 1, 3500 * time.Millisecond: 0} {
			if got := e.OldestAt(time.Now().Add(-ago)); got != want {
				t.Errorf("%s ago, write %d was the oldest, want %d", ago, got, want)
			}
		}
		second := numbered.Value("k", 2, 30)
		if e.Allows(e.Oldest(), second, true) == nil || e.Allows(2, second, true) != nil || e.Oldest() != 3 {
			t.Error("it allows an older write, or not the one asked for, or has changed")
		}
		e.Forget(2)
		if e.Show(e.Oldest(), second, true) != nil || e.Show(e.Oldest(), numbered.Value("k", 1, 30), true) == nil {
			t.Error("it has not forgotten one write")
		}
		if e.Forget(3); e.Oldest() != 2 {
			t.Error("it forgets forwards")
		}
	})
}
