//go:build race

package journal_test

// fewer divides the numbers of damages, of power cuts, and of random lives that are tried. The race detector
// makes the life of a journal after them ten times as long. It looks for races and not for
// outcomes: a few lives have them all.
const fewer = 8
