//go:build !race

package journal_test

// fewer divides the numbers of damages, power cuts and random lives to try.
const fewer = 1
