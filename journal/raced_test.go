//go:build race

package journal_test

// The race detector makes a damaged directory's life ten times as long. It looks for races
// and not for outcomes: a few lives have them all.
func init() { fewer = 8 }
