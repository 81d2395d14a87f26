//go:build race

package journal_test

// fewer divides the numbers of damages, power cuts and random lives to try. The race detector makes
// each of them ten times as slow. It looks for races, not outcomes, so a few are enough.
const fewer = 8
