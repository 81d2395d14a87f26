package journal_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// named returns an entry whose version names its time.
func named(value string, at, made float64) *journal.Observation {
	o := shown(value, at)
	o.MadeAt = made
	return o
}

// Where versions name their times, these decide which is older, and upstream's do not. The pending write's base
// stays.
func TestVersionsThatNameTheirTimes(t *testing.T) {
	fs := vfs.NewCrashableMem()
	names := func(o *journal.Options) { o.Named = func(namespace string) bool { return namespace == "ns" } }
	j := open(t, fs, names)
	answered(t, j, named("2", 100, 50), "2", journal.NotRejected)
	for _, j := range []*journal.Journal{j, open(t, crash(fs), names)} {
		state := answered(t, j, named("1", 200, 49), "2", journal.OlderAnswer)
		if state.MadeAt != 50 {
			t.Errorf("the copy was made at %v", state.MadeAt)
		}
	}
	answered(t, j, named("2", 201, 49), "2", journal.NotRejected)
	answered(t, j, named("1", 201, 49), "2", journal.OlderAnswer) // the same value's older version does not count
	answered(t, j, named("3", 99, 51), "3", journal.NotRejected)
	w := put(t, j, key("a"), "mine")
	if _, err := j.Fill(key("a"), named("4", 300, 60), always); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("the base was replaced: %v", err)
	}
	if base, err := j.Fence.Base(key("a")); err != nil || base.MadeAt != 51 {
		t.Errorf("the base is %+v (%v)", base, err)
	}
	w.MadeAt = 70
	no(t, j.Settle(w))
	answered(t, j, named("5", 400, 69), "mine", journal.OlderAnswer)
}

// Where versions name their times, what is lost has the time by its writer's clock (contract 17).
func TestAConflictHasTheWritersTimes(t *testing.T) {
	j := open(t, vfs.NewMem())
	mine, other := put(t, j, key("a"), "mine"), put(t, j, key("b"), "mine")
	no(t, j.Fence.Lose(mine, *named("theirs", 100, 50), "later"))
	no(t, j.Fence.KeepOverwritten(other.ID, *named("theirs", 100, 40)))
	lost, err := j.History.Lost("", 0, 10)
	if no(t, err); len(lost) != 2 || lost[0].WrittenAt != 40 || lost[1].WrittenAt != mine.WrittenAt {
		t.Errorf("%+v", lost)
	}
}
