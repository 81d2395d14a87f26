//go:build !race

package journal_test

// fewer divides the numbers of damages that are tried.
const fewer = 1
