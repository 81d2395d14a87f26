package journal_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// A retry undoes no write known to be newer, unless the caller allows it.
func TestRetryUndoesNoNewerWrite(t *testing.T) {
	a := key("a")
	remove := func(t *testing.T, j *journal.Journal) journal.Write {
		t.Helper()
		w, err := j.Append(journal.NewWrite{ID: a, Op: journal.Delete})
		no(t, err)
		return w
	}
	upstreamShows := func(t *testing.T, j *journal.Journal, at float64) {
		t.Helper()
		no(t, second(j.Fill(a, &journal.Observation{Value: "foreign", CreatedAt: at, UpdatedAt: at}, always)))
	}
	const later, earlier = 1e10, 1.0
	for name, test := range map[string]struct {
		before func(*testing.T, *journal.Journal)
		since  func(*testing.T, *journal.Journal)
		newer  bool
	}{
		"nothing since":         {since: func(*testing.T, *journal.Journal) {}},
		"an older write":        {since: func(*testing.T, *journal.Journal) {}, before: func(t *testing.T, j *journal.Journal) { put(t, j, a, "old"); settle(t, j, a) }},
		"a pending write":       {newer: true, since: func(t *testing.T, j *journal.Journal) { put(t, j, a, "new") }},
		"a settled write":       {newer: true, since: func(t *testing.T, j *journal.Journal) { put(t, j, a, "new"); settle(t, j, a) }},
		"a pending delete":      {newer: true, since: func(t *testing.T, j *journal.Journal) { remove(t, j) }},
		"a delete with no copy": {newer: true, since: func(t *testing.T, j *journal.Journal) { no(t, j.Settle(remove(t, j))) }},
		"another host's write":  {newer: true, since: func(t *testing.T, j *journal.Journal) { upstreamShows(t, j, later) }},
		"another host's older":  {since: func(t *testing.T, j *journal.Journal) { upstreamShows(t, j, earlier) }},
		"an older write, which upstream took late": {
			before: func(t *testing.T, j *journal.Journal) { put(t, j, a, "foreign"); settle(t, j, a) },
			since:  func(t *testing.T, j *journal.Journal) { upstreamShows(t, j, later) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := open(t, vfs.NewMem())
			if test.before != nil {
				test.before(t, j)
			}
			dead := put(t, j, a, "dead")
			no(t, j.DeadLetter(dead, journal.Failure{Status: 400}))
			test.since(t, j)
			was, err := j.Lookup(a)
			no(t, err)
			_, err = j.Retry(dead.Seq, dead.Seq)
			if newer := errors.Is(err, journal.ErrNewer); newer != test.newer || !newer && err != nil {
				t.Fatalf("the error is %v", err)
			}
			if test.newer {
				expect(t, j, a, was.Kind, was.Value)
				if got := j.Stats().DeadLetters; got != 1 {
					t.Errorf("%d dead letters are left", got)
				}
				no(t, second(j.Retry(dead.Seq, journal.AnyWrite)))
			}
			expect(t, j, a, journal.Value, "dead")
			check(t, j)
		})
	}
}

func TestReadDeadLetter(t *testing.T) {
	j := open(t, vfs.NewMem())
	w := put(t, j, key("a"), "value")
	if _, err := j.ReadDeadLetter(w.Seq); !errors.Is(err, journal.ErrNoDeadLetter) {
		t.Errorf("of a pending write: %v", err)
	}
	no(t, j.DeadLetter(w, journal.Failure{Status: 400, Reason: "no"}))
	letter, err := j.ReadDeadLetter(w.Seq)
	no(t, err)
	if diff := cmp.Diff([]any{w.ID, w.Seq, "value", 400, "no"}, []any{letter.ID, letter.Seq, letter.Value, letter.Status, letter.Error}); diff != "" {
		t.Errorf("dead letter (-want +got):\n%s", diff)
	}
}
