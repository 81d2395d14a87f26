//go:build race

package flush

// Fewer divides the numbers of runs, writes and hours of some tests. The race detector makes them ten
// times as slow; it looks for races, not outcomes, and a few runs contain them all.
const Fewer = 8
