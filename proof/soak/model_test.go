package main

import (
	"testing"

	"github.com/botwired/botwired/proof/numbered"
)

// The model allows an answer that may be true, and no other.
func TestModel(t *testing.T) {
	e := newEntry("ns", "k")
	judge := func(about string, oldest int, text string, found, allowed bool) {
		t.Helper()
		if err := e.show(oldest, text, found); (err == nil) != allowed {
			t.Errorf("%s: %v", about, err)
		}
	}
	text := func(n int) string { return numbered.Value("k", n, 30) }

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
	judge("another key's value", e.oldest(), numbered.Value("j", 4, 30), true, false)
}
