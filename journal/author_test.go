package journal_test

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

func by(t *testing.T, j *journal.Journal, author string, id journal.ID, value string) journal.Write {
	t.Helper()
	w, err := j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: value, ListBytes: len(value), Author: author})
	no(t, err)
	return w
}

// expectAuthors checks the authors of an entry's versions, the newest first.
func expectAuthors(t *testing.T, j *journal.Journal, id journal.ID, want ...string) {
	t.Helper()
	past, err := j.History.Of(id, 100)
	no(t, err)
	var got []string
	for _, p := range past {
		author, err := j.History.Author(id, p.Seq)
		if no(t, err); author != p.Author {
			t.Errorf("version %d is by %q, and in the list by %q", p.Seq, author, p.Author)
		}
		got = append(got, p.Author+p.Host)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s is by %q, want %q", id, got, want)
	}
}

// A write has its author for as long as it is known: pending, settled, a dead letter or pending again.
func TestAuthor(t *testing.T) {
	fs := vfs.NewCrashableMem()
	var announced []string
	j := open(t, fs)
	j.Subscribe(func(c journal.Change) {
		if c.Written {
			announced = append(announced, c.Author)
		}
	})
	a := key("a")
	by(t, j, "one", a, "1")
	settle(t, j, a)
	dead := by(t, j, "two", a, "2")
	no(t, j.DeadLetter(dead, journal.Failure{Kind: journal.Dropped}))
	late := by(t, j, "three", key("b"), "3")
	no(t, j.DeadLetter(late, journal.Failure{Kind: journal.Dropped}))
	no(t, j.BoundHistory(1)) // removes the versions of the dead letters
	no(t, j.Settle(late))
	expectAuthors(t, j, late.ID, "three")
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		letter, err := j.ReadDeadLetter(dead.Seq)
		if no(t, err); letter.Author != "two" {
			t.Errorf("the dead letter is by %q", letter.Author)
		}
		w, err := j.Retry(dead.Seq, journal.AnyWrite)
		if no(t, err); w.Author != "two" {
			t.Errorf("the retried write is by %q", w.Author)
		}
		w, _, err = j.Newest(a)
		if no(t, err); w.Author != "two" {
			t.Errorf("the pending write is by %q", w.Author)
		}
		expectAuthors(t, j, a, "two", "one")
		if author, err := j.History.Author(a, dead.Seq); err != nil || author != "" {
			t.Errorf("a version that is gone is by %q, %v", author, err)
		}
	}
	if !slices.Equal(announced, []string{"one", "two", "three", "two"}) {
		t.Errorf("the announced writes are by %q", announced)
	}
}

// A state of another host that upstream shows has its author and its host, and so has what is
// lost of it. The same value by somebody else leaves the version and the disk as they are.
func TestAuthorOfAnotherHost(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	o := observed("theirs")
	o.Author, o.Host = "someone", "@elsewhere"
	no(t, second(j.Fill(a, o, always)))
	expectAuthors(t, j, a, "someone@elsewhere")
	batches := j.Batches()
	o.Author = "another"
	no(t, second(j.Fill(a, o, always)))
	expectAuthors(t, j, a, "someone@elsewhere")
	if n := j.Batches(); n != batches {
		t.Errorf("the journal made %d batches", n-batches)
	}
	w := by(t, j, "mine", a, "mine")
	no(t, j.Fence.KeepOverwritten(w.ID, *o))
	lost, err := j.History.Lost("", 0, 10)
	if no(t, err); len(lost) != 1 || lost[0].Author != "another" || lost[0].Host != "@elsewhere" {
		t.Errorf("lost are %+v", lost)
	}
}
