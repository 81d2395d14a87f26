//go:build race

package sim

import "flag"

// fewer divides the number of lives. The race detector makes each of them ten times as long. It looks
// for races and not for outcomes: a few lives have them all.
const fewer = 10

// A hundred scripts are rapid's default. -rapid.checks comes after this and prevails.
func init() {
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
}
