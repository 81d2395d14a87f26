package numbered_test

import (
	"testing"

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
