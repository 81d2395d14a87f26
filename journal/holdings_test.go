package journal_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// Holdings works before the index is rebuilt, and counts each entry once.
func TestHoldings(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*journal.Journal)
		want journal.Holdings
	}{
		"nothing": {func(*journal.Journal) {}, journal.Holdings{}},
		"pending": {func(j *journal.Journal) {
			put(t, j, key("a"), "1")
			put(t, j, key("a"), "2")
			remove(t, j, key("b"))
		}, journal.Holdings{Pending: 2}},
		"dead": {func(j *journal.Journal) {
			no(t, j.DeadLetter(put(t, j, key("a"), "1"), journal.Failure{Status: 400, Reason: "no"}))
		}, journal.Holdings{DeadLetters: 1}},
		"copy": {func(j *journal.Journal) {
			put(t, j, key("a"), "1")
			settle(t, j, key("a"))
		}, journal.Holdings{Copies: true}},
		"copy that was given up": {func(j *journal.Journal) {
			no(t, second(j.Fill(key("a"), observed("1"), always)))
			no(t, second(j.Fill(key("a"), nil, always)))
		}, journal.Holdings{}},
		"listing": {func(j *journal.Journal) { no(t, j.BeginListing("ns").Commit(nil, true)) }, journal.Holdings{Copies: true}},
	} {
		fs := vfs.NewCrashableMem()
		j := open(t, fs)
		test.do(j)
		for _, j := range []*journal.Journal{j, reopen(t, crash(fs))} {
			if got, err := j.Holdings(); err != nil || got != test.want {
				t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
			}
		}
	}
}
