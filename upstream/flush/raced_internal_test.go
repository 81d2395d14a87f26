//go:build race

package flush

// Fewer divides the numbers of lives, of writes and of hours of some tests. The race detector makes them
// ten times as long. It looks for races and not for outcomes: a few lives have them all.
const Fewer = 8
