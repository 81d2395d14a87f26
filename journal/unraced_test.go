//go:build !race

package journal_test

// fewer divides the numbers of damages, and of power cuts, that are tried.
const fewer = 1
