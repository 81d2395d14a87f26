package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// shown returns an entry as upstream shows it.
func shown(value string, at float64) *journal.Observation {
	return &journal.Observation{Value: value, ListBytes: len(value), CreatedAt: 10, UpdatedAt: at}
}

// answered fills in an answer, and fails the test unless the value and the rejection are as expected.
func answered(t *testing.T, j *journal.Journal, o *journal.Observation, value string, why journal.Rejection) journal.State {
	t.Helper()
	state, err := j.Fill(key("a"), o, always)
	no(t, err)
	if state.Value != value || state.Rejection != why {
		t.Fatalf("%+v left %q, rejection %d; want %q, %d", o, state.Value, state.Rejection, value, why)
	}
	if value != "" {
		expect(t, j, key("a"), journal.Settled, value)
	}
	return state
}

// contract 7: a lagging replica moves no reader back, even after a restart, and confirms nothing.
func TestOlderAnswersDoNotCount(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	answered(t, j, shown("1", 100), "1", journal.NotRejected)
	newer := answered(t, j, shown("2", 200), "2", journal.NotRejected)
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		old := answered(t, j, shown("1", 100), "2", journal.OlderAnswer)
		if !old.ConfirmedAt.Equal(newer.ConfirmedAt) {
			t.Errorf("confirmed at %v, want %v", old.ConfirmedAt, newer.ConfirmedAt)
		}
		answered(t, j, shown("1", 199.999999), "2", journal.OlderAnswer)
		if n := j.Trust.OlderAnswers()["ns"]; n != 2 {
			t.Errorf("%d older answers", n)
		}
	}
	answered(t, j, shown("2", 100), "2", journal.NotRejected)   // the same value is not an older state
	answered(t, j, shown("1", 199), "2", journal.OlderAnswer)   // its time did not count either
	answered(t, j, shown("2'", 200), "2'", journal.NotRejected) // with equal times, the later answer counts
	answered(t, j, shown("3", 201), "3", journal.NotRejected)
}

// Upstream has shown no time yet for a write that has settled. A state from before the write is older.
func TestAnswersFromBeforeAWriteDoNotCount(t *testing.T) {
	j := open(t, vfs.NewMem())
	answered(t, j, shown("1", 100), "1", journal.NotRejected)
	put(t, j, key("a"), "mine")
	settle(t, j, key("a"))
	answered(t, j, shown("1", 100), "mine", journal.OlderAnswer)
	answered(t, j, shown("0", 99), "mine", journal.OlderAnswer)
	answered(t, j, shown("mine", 150), "mine", journal.NotRejected)
	answered(t, j, shown("between", 149), "mine", journal.OlderAnswer)
	answered(t, j, shown("theirs", 151), "theirs", journal.NotRejected)
}

// contract 8: an older answer that a write has overtaken is dropped, and not counted.
func TestOvertakenOlderAnswerIsDropped(t *testing.T) {
	j := open(t, vfs.NewMem())
	answered(t, j, shown("2", 200), "2", journal.NotRejected)
	_, err := j.Fill(key("a"), shown("1", 100), func() bool { return false })
	if !errors.Is(err, journal.ErrChanged) {
		t.Errorf("%v, want %v", err, journal.ErrChanged)
	}
	if older := j.Trust.OlderAnswers(); len(older) != 0 {
		t.Errorf("counted: %v", older)
	}
}

// A run of older answers gets one log line, even if newer answers come in between.
func TestOlderAnswersAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		j := open(t, vfs.NewMem(), func(o *journal.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		for range 3 {
			answered(t, j, shown("2", 200), "2", journal.NotRejected)
			answered(t, j, shown("1", 100), "2", journal.OlderAnswer)
			time.Sleep(5 * time.Minute)
		}
		if n := strings.Count(log.String(), "older state"); n != 1 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		time.Sleep(time.Hour)
		answered(t, j, shown("1", 100), "2", journal.OlderAnswer)
		if n := strings.Count(log.String(), "older state"); n != 2 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}

// An older row of a listing does not replace the kept one. An older answer does not replace the row
// that a listing has shown.
func TestOlderRowsDoNotCount(t *testing.T) {
	j := open(t, vfs.NewMem())
	row := func() journal.Row {
		l, _, err := j.Listing("ns", allRows)
		no(t, err)
		return l.Rows[0]
	}
	list := func(at float64, bytes int) {
		no(t, j.BeginListing("ns").Commit([]journal.Row{{Key: "a", ListBytes: bytes, UpdatedAt: at}}, true))
	}
	list(200, 2)
	list(100, 1)
	if r := row(); r.ListBytes != 2 || r.UpdatedAt != 200 {
		t.Errorf("the row is %+v", r)
	}
	if n := j.Trust.OlderAnswers()["ns"]; n != 1 {
		t.Errorf("%d older answers", n)
	}
	answered(t, j, shown("1", 100), "1", journal.NotRejected) // no reader has seen another value
	if r := row(); r.ListBytes != 2 || r.UpdatedAt != 200 {
		t.Errorf("the row is %+v", r)
	}
	fill := j.BeginListing("ns")
	answered(t, j, shown("333", 300), "333", journal.NotRejected)
	no(t, fill.Commit([]journal.Row{{Key: "a", ListBytes: 2, UpdatedAt: 200}}, true))
	if r := row(); r.ListBytes != 3 {
		t.Errorf("the row is %+v", r)
	}
	list(250, 2)
	if r := row(); r.ListBytes != 3 || r.UpdatedAt != 300 {
		t.Errorf("the row is %+v", r)
	}
	fill = j.BeginListing("ns")
	answered(t, j, shown("4444", 400), "4444", journal.NotRejected)
	no(t, fill.Commit([]journal.Row{{Key: "a", ListBytes: 5, UpdatedAt: 500}}, true))
	if r := row(); r.ListBytes != 5 || r.UpdatedAt != 500 {
		t.Errorf("the row is %+v", r)
	}
}

// limits sets the default limits.
func limits(o *journal.Options) {
	o.LossLimit = journal.UsualLossLimit
}

// confirmed makes a journal know n settled entries of a namespace.
func confirmed(t *testing.T, j *journal.Journal, namespace string, n int) (rows []journal.Row) {
	t.Helper()
	for i := range n {
		id := journal.ID{Namespace: namespace, Key: fmt.Sprint(i)}
		no(t, second(j.Fill(id, shown("value", 100+float64(i)), always)))
		rows = append(rows, journal.Row{Key: id.Key, ListBytes: 5, UpdatedAt: 100 + float64(i)})
	}
	return rows
}

func commit(t *testing.T, j *journal.Journal, namespace string, complete bool, rows ...journal.Row) {
	t.Helper()
	no(t, j.BeginListing(namespace).Commit(rows, complete))
}

// kept counts the settled copies and the rows of a namespace.
func kept(t *testing.T, j *journal.Journal, namespace string) (copies, rows int, suspect bool) {
	t.Helper()
	all, err := j.Trust.Copies(namespace, "", 10_000)
	no(t, err)
	l, _, err := j.Listing(namespace, allRows)
	no(t, err)
	return len(all), len(l.Rows), l.Suspect
}

func wantKept(t *testing.T, j *journal.Journal, namespace string, copies, rows int, suspect bool) {
	t.Helper()
	if c, r, s := kept(t, j, namespace); c != copies || r != rows || s != suspect {
		t.Fatalf("%s has %d copies, %d rows, suspect %v; want %d, %d, %v", namespace, c, r, s, copies, rows, suspect)
	}
	if _, s := j.Trust.Suspect(namespace); s != suspect {
		t.Fatalf("%s is suspect: %v", namespace, s)
	}
}

// A listing that lacks few entries means that another host has deleted them. A listing that lacks many makes
// the namespace suspect.
func TestWhichAbsencesAreBelieved(t *testing.T) {
	for _, c := range []struct {
		name         string
		of, left     int
		wantsSuspect bool
	}{
		{"all of many", 40, 0, true},
		{"half of many", 40, 20, true},
		{"less than half", 40, 21, false},
		{"ten of ten", 10, 0, true},
		{"all of few", 9, 0, false},
		{"nearly all of few", 12, 3, false},
		{"none", 40, 40, false},
	} {
		for _, listedBefore := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, listedBefore), func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				j := open(t, fs, limits)
				rows := confirmed(t, j, "ns", c.of)
				if listedBefore {
					commit(t, j, "ns", true, rows...)
				}
				commit(t, j, "ns", true, rows[:c.left]...)
				left := c.left
				if c.wantsSuspect {
					left = c.of
				}
				wantKept(t, j, "ns", left, left, c.wantsSuspect)
				wantKept(t, open(t, crash(fs), limits), "ns", left, left, c.wantsSuspect)
				if s, _ := j.Trust.Suspect("ns"); c.wantsSuspect && (s.Missing != c.of-c.left || s.Of != c.of) {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// While a namespace is suspect, no 404 drops a copy. Upstream's values count, and own deletes go on.
// Another host's delete is accepted for entries that upstream has confirmed since then.
func TestASuspectNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		j := open(t, fs, limits)
		rows := confirmed(t, j, "ns", 20)
		commit(t, j, "ns", true, rows...)
		listedAt := time.Now()
		time.Sleep(time.Hour)
		commit(t, j, "ns", true)
		l, _, err := j.Listing("ns", allRows)
		no(t, err)
		if !l.FetchedAt.Equal(listedAt) || !l.Complete {
			t.Errorf("fetched at %v, want %v; complete %v", l.FetchedAt, listedAt, l.Complete)
		}
		state, err := j.Fill(key("3"), nil, always)
		no(t, err)
		if state.Value != "value" || state.Rejection != journal.DataLoss || !state.ConfirmedAt.Equal(listedAt) {
			t.Errorf("%+v", state)
		}
		if unproven, err := j.Trust.NeedsProof(key("3")); unproven || err != nil {
			t.Errorf("another list would say more: %v, %v", unproven, err)
		}
		time.Sleep(time.Minute)
		put(t, j, key("new"), "mine")
		settle(t, j, key("new"))
		remove(t, j, key("4"))
		settle(t, j, key("4"))
		expect(t, j, key("4"), journal.Absent, "")
		wantKept(t, j, "ns", 20, 20, true)
		commit(t, j, "ns", true, journal.Row{Key: "new", ListBytes: 4, UpdatedAt: 300})
		if s, _ := j.Trust.Suspect("ns"); s.Missing != 19 || s.Of != 20 {
			t.Errorf("%+v", s)
		}
		commit(t, j, "ns", true) // another host has deleted the new one
		expect(t, j, key("new"), journal.Absent, "")
		wantKept(t, j, "ns", 19, 19, true)
		commit(t, j, "ns", true, rows[:4]...) // some are back
		wantKept(t, j, "ns", 19, 19, true)
		commit(t, j, "ns", true, rows[:19]...) // all but one, and the one that was deleted here
		wantKept(t, j, "ns", 19, 20, true)
		commit(t, j, "ns", true, rows...)
		wantKept(t, j, "ns", 19, 20, false)
		wantKept(t, open(t, crash(fs), limits), "ns", 19, 20, false)
	})
}

// In a suspect namespace, the row of an entry without a copy stays, unless a caller deletes the entry.
func TestARowInASuspectNamespace(t *testing.T) {
	j := open(t, vfs.NewMem(), limits)
	var rows []journal.Row
	for i := range 20 {
		rows = append(rows, journal.Row{Key: fmt.Sprint(i), ListBytes: 1, UpdatedAt: 100})
	}
	commit(t, j, "ns", true, rows...)
	commit(t, j, "ns", true)
	for range 2 {
		state, err := j.Fill(key("3"), nil, always)
		no(t, err)
		if state.Kind != journal.Unknown || !state.Listed {
			t.Errorf("%+v", state)
		}
		wantKept(t, j, "ns", 0, 20, true)
	}
}

// Deletes of this daemon that upstream has carried out but not answered yet do not count as missing.
func TestOwnDeletesUnderWayAreNotMissing(t *testing.T) {
	j := open(t, vfs.NewMem(), limits)
	commit(t, j, "ns", true, confirmed(t, j, "ns", 20)...)
	for i := range 16 {
		remove(t, j, key("%d", i))
	}
	commit(t, j, "ns", true, journal.Row{Key: "19", ListBytes: 5, UpdatedAt: 119})
	if _, suspect := j.Trust.Suspect("ns"); suspect {
		t.Error("suspect")
	}
}

// A wrong URL empties many small namespaces at once. Each is too small to be suspect alone; together they are
// enough.
func TestManySmallNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		j := open(t, fs, limits)
		name := func(i int) string { return fmt.Sprint("session-", i) }
		for i := range 12 {
			commit(t, j, name(i), true, confirmed(t, j, name(i), 3)...)
		}
		for i := range 2 { // a day apart, they count as other hosts' deletes
			commit(t, j, name(i), true)
			time.Sleep(24 * time.Hour)
			wantKept(t, j, name(i), 0, 0, false)
		}
		for i := 2; i < 10; i++ {
			commit(t, j, name(i), true)
			time.Sleep(time.Minute)
			if i < 5 { // 9 entries
				wantKept(t, j, name(i), 0, 0, false)
			} else {
				wantKept(t, j, name(i), 3, 3, true)
			}
		}
		time.Sleep(24 * time.Hour) // as long as one is suspect, no other loss is accepted
		j = open(t, crash(fs), limits)
		commit(t, j, name(10), true)
		wantKept(t, j, name(10), 3, 3, true)
	})
}

// If small namespaces lose most but not all of their entries, the losses are accepted.
func TestSmallNamespacesThatShrink(t *testing.T) {
	j := open(t, vfs.NewMem(), limits)
	for i := range 8 {
		name := fmt.Sprint("session-", i)
		rows := confirmed(t, j, name, 5)
		commit(t, j, name, true, rows...)
		commit(t, j, name, true, rows[:2]...)
		wantKept(t, j, name, 2, 2, false)
	}
}

// The rows that upstream has lost do not make a listing longer than upstream's maximum.
func TestASuspectNamespaceOfManyRows(t *testing.T) {
	j := open(t, vfs.NewMem(), limits)
	commit(t, j, "ns", true, confirmed(t, j, "ns", 20)...)
	commit(t, j, "ns", true)
	var others []journal.Row
	for i := range 990 {
		others = append(others, journal.Row{Key: fmt.Sprint("other-", i), ListBytes: 1, UpdatedAt: 200})
	}
	commit(t, j, "ns", true, others...)
	wantKept(t, j, "ns", 20, 1000, true)
	if l, _, err := j.Listing("ns", allRows); err != nil || l.Complete {
		t.Errorf("complete: %v, %v", l.Complete, err)
	}
}

// In a suspect namespace, the readable copies stay even if others are damaged.
func TestASuspectNamespaceWithDamagedCopies(t *testing.T) {
	mem := vfs.NewMem()
	j := open(t, mem, limits)
	commit(t, j, "ns", true, confirmed(t, j, "ns", 20)...)
	commit(t, j, "ns", true)
	ids := withUnreadCopies(t, j, mem)
	commit(t, j, "ns", true)
	intact := 0
	for _, id := range ids {
		if lookup(t, j, id).Kind == journal.Settled {
			intact++
		}
	}
	if intact == 0 || intact == len(ids) {
		t.Errorf("%d copies are left", intact)
	}
}
