package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// bury makes a write to an entry, and dead-letters it at once.
func bury(t *testing.T, j *journal.Journal, id journal.ID, value string, kind journal.DeadKind) uint64 {
	t.Helper()
	w := put(t, j, id, value)
	no(t, j.DeadLetter(w, journal.Failure{Kind: kind, Status: 400}))
	return w.Seq
}

// supersededBy returns SupersededBy of all dead letters, by sequence number.
func supersededBy(t *testing.T, j *journal.Journal) map[uint64]uint64 {
	t.Helper()
	letters, err := j.DeadLetters(0, 1000)
	no(t, err)
	by := make(map[uint64]uint64)
	for _, l := range letters {
		by[l.Seq] = l.SupersededBy
	}
	return by
}

func wantSuperseded(t *testing.T, j *journal.Journal, want map[uint64]uint64) {
	t.Helper()
	if diff := cmp.Diff(want, supersededBy(t, j)); diff != "" {
		t.Errorf("superseded by (-want +got):\n%s", diff)
	}
	check(t, j)
}

// A write that settles durably supersedes its entry's older dead letters, and no others. Their values
// stay.
func TestASettledWriteSupersedesDeadLetters(t *testing.T) {
	for name, settles := range map[string]func(*testing.T, *journal.Journal, journal.ID) uint64{
		"a put": func(t *testing.T, j *journal.Journal, id journal.ID) uint64 {
			put(t, j, id, "new")
			return settle(t, j, id).Seq
		},
		"a delete": func(t *testing.T, j *journal.Journal, id journal.ID) uint64 {
			remove(t, j, id)
			return settle(t, j, id).Seq
		},
		"a write with a newer one pending": func(t *testing.T, j *journal.Journal, id journal.ID) uint64 {
			w := put(t, j, id, "new")
			put(t, j, id, "newer")
			no(t, j.Settle(w))
			return w.Seq
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs)
			first, second := bury(t, j, key("a"), "dead", journal.Refused), bury(t, j, key("a"), "dead", journal.Dropped)
			other := bury(t, j, key("b"), "dead", journal.Refused)
			if got := j.Stats().OpenDeadLetters; got != 2 {
				t.Errorf("%d are open", got)
			}
			by := settles(t, j, key("a"))
			want := map[uint64]uint64{first: by, second: by, other: 0}
			for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
				wantSuperseded(t, j, want)
				if st := j.Stats(); st.OpenDeadLetters != 1 || st.DeadLetters != 3 {
					t.Errorf("%+v", st)
				}
				letter, err := j.ReadDeadLetter(first)
				no(t, err)
				if letter.Value != "dead" || letter.SupersededBy == 0 {
					t.Errorf("%+v", letter)
				}
			}
			// None of these writes supersedes a later dead letter.
			later := bury(t, j, key("a"), "dead", journal.Refused)
			want[later] = 0
			wantSuperseded(t, j, want)
		})
	}
}

// Only force retries a superseded dead letter.
func TestRetryOfASupersededDeadLetter(t *testing.T) {
	j := open(t, vfs.NewMem())
	dead := bury(t, j, key("a"), "dead", journal.Refused)
	w := remove(t, j, key("a"))
	no(t, j.Settle(w))
	if _, err := j.Retry(dead, dead); !errors.Is(err, journal.ErrNewer) {
		t.Errorf("retry of %d: %v", dead, err)
	}
	put(t, j, key("a"), "new") // the mark does not name it
	latest := settle(t, j, key("a"))
	if _, err := j.Retry(dead, w.Seq); !errors.Is(err, journal.ErrNewer) {
		t.Errorf("retry over the write that has superseded it, and a later one: %v", err)
	}
	no(t, second(j.Retry(dead, latest.Seq)))
	expect(t, j, key("a"), journal.Value, "dead")
	if got := j.Stats().OpenDeadLetters; got != 0 {
		t.Errorf("%d are open", got)
	}
	check(t, j)
}

// No batch becomes much larger, regardless of how many dead letters there are to mark.
func TestLargeDeadLettersAreSuperseded(t *testing.T) {
	j := open(t, vfs.NewMem())
	want := make(map[uint64]uint64)
	for range 8 {
		want[bury(t, j, key("a"), strings.Repeat("v", 100_000), journal.Refused)] = 0
	}
	w := put(t, j, key("a"), "new")
	before := j.Batches()
	no(t, j.Settle(w))
	for seq := range want {
		want[seq] = w.Seq
	}
	wantSuperseded(t, j, want)
	if n := j.Batches() - before; n < 3 {
		t.Errorf("%d batches for 800 kB", n)
	}
}

// A write that settles before the index of pending writes is complete marks the dead letters too. An older
// botwired has marked none.
func TestDeadLettersAreSupersededAtTheStart(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	early, old, kept := bury(t, j, key("a"), "dead", journal.Refused), bury(t, j, key("b"), "dead", journal.Refused), bury(t, j, key("c"), "dead", journal.Refused)
	retried := bury(t, j, key("d"), "dead", journal.Refused)
	remove(t, j, key("a"))
	put(t, j, key("b"), "new")
	b := settle(t, j, key("b"))
	no(t, j.Unmark(old))

	j = reopen(t, crash(fs))
	a := settle(t, j, key("a"))
	no(t, second(j.Retry(retried, retried)))
	dropped := bury(t, j, key("c"), "dead", journal.Dropped)
	no(t, j.Run(t.Context()))
	wantSuperseded(t, j, map[uint64]uint64{early: a.Seq, old: b.Seq, kept: 0, dropped: 0})
	if got := j.Stats().OpenDeadLetters; got != 1 {
		t.Errorf("%d are open", got)
	}
}
