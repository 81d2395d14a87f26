package main

import "testing"

// The model tells what may be true from what must not be.
func TestModel(t *testing.T) {
	e := newEntry("ns", "k")
	judge := func(what string, oldest int, text string, found, allowed bool) {
		t.Helper()
		if err := e.show(oldest, text, found); (err == nil) != allowed {
			t.Errorf("%s: %v", what, err)
		}
	}
	text := func(n int) string { return value("k", n, 30) }

	judge("absent at first", e.oldest(), "", false, true)
	first := e.begin(false)
	judge("a write under way is seen", 0, text(first), true, true)
	judge("and does not vanish", e.oldest(), "", false, false)
	e.acknowledged(first)
	second := e.begin(false)
	e.refused(second)
	judge("a refused write is seen", e.oldest(), text(second), true, false)
	third := e.begin(true)
	judge("a delete under way", e.oldest(), "", false, true)
	judge("what it deleted comes back", e.oldest(), text(first), true, false)
	judge("a read that began before it", first, text(first), true, true)
	e.acknowledged(third)
	if there, known, _ := e.certain(); there || !known {
		t.Error("the entry is not known to be absent")
	}
	e.begin(false)
	if _, known, _ := e.certain(); known {
		t.Error("a write under way leaves no doubt")
	}
	judge("a write that nobody made", e.oldest(), text(9), true, false)
	judge("half a value", e.oldest(), text(4)[:20]+"x", true, false)
	judge("another key's value", e.oldest(), value("j", 4, 30), true, false)
}
