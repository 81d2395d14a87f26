//go:build race

package journal_test

// fewer divides the numbers of damages that are tried. The race detector makes a damaged
// directory's life ten times as long. It looks for races and not for outcomes: a few lives
// have them all.
const fewer = 8
