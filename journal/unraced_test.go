//go:build !race

package journal_test

// fewer divides the numbers of damages, of power cuts, and of random lives that are tried.
const fewer = 1
