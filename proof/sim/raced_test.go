//go:build race

package sim

// fewer divides the number of lives of several hosts. The race detector makes each of them ten
// times as long. It looks for races and not for outcomes: a few lives have them all.
const fewer = 5
