package journal_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// contract 7: a person's decision counts.
func TestForgettingBelievesUpstream(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs, limits)
	rows := confirmed(t, j, "ns", 600)
	commit(t, j, "ns", true, rows...)
	commit(t, j, "ns", true)
	wantKept(t, j, "ns", 600, 600, true)
	older := rows[7]
	older.UpdatedAt, older.ListBytes = 50, 1
	fill := j.BeginListing("ns")
	fill.Believe()
	no(t, fill.Commit([]journal.Row{rows[3], older}, true))
	for _, j := range []*journal.Journal{j, open(t, crash(fs), limits)} {
		wantKept(t, j, "ns", 1, 2, false)
		expect(t, j, key("3"), journal.Settled, "value")
		expect(t, j, key("7"), journal.Unknown, "")
	}
	state, err := j.Fill(key("7"), shown("v", 50), always)
	no(t, err)
	if state.Value != "v" || state.Rejection != journal.NotRejected {
		t.Errorf("%+v", state)
	}
}

// An incomplete listing says nothing about the entries that it lacks, except those new enough to be
// listed.
func TestIncompleteListingsAndSuspects(t *testing.T) {
	j := open(t, vfs.NewMem(), limits)
	rows := confirmed(t, j, "ns", 40)
	newest := slices.Clone(rows[30:])
	commit(t, j, "ns", false, newest...)
	wantKept(t, j, "ns", 40, 10, false)
	if unproven, err := j.Trust.NeedsProof(key("1")); unproven || err != nil {
		t.Errorf("a list that cannot tell would be asked for again: %v, %v", unproven, err)
	}
	if unproven, err := j.Trust.NeedsProof(key("35")); !unproven || err != nil {
		t.Errorf("an entry that is listed is believed to be gone: %v, %v", unproven, err)
	}
	commit(t, j, "ns", true)
	wantKept(t, j, "ns", 40, 40, true)
	commit(t, j, "ns", false, append(newest[:3:3], newest[4:]...)...)
	wantKept(t, j, "ns", 40, 40, true)
	commit(t, j, "ns", false, newest...)
	wantKept(t, j, "ns", 40, 10, false)
}

// The last copies of entries that upstream has lost are not removed to make room.
func TestCopiesOfASuspectNamespaceAreKept(t *testing.T) {
	for name, giveUp := range map[string]func(*journal.Journal) error{
		"budget":    func(j *journal.Journal) error { return j.Evict(1) },
		"full disk": (*journal.Journal).DropCopies,
	} {
		t.Run(name, func(t *testing.T) {
			j := open(t, vfs.NewMem(), limits)
			commit(t, j, "ns", true, confirmed(t, j, "ns", 40)...)
			commit(t, j, "ns", true)
			confirmed(t, j, "other", 20)
			no(t, giveUp(j))
			wantKept(t, j, "ns", 40, 40, true)
			wantKept(t, j, "other", 0, 0, false)
		})
	}
}

// Even if the fence shows an older state, readers do not go back: the write that has lost ends.
func TestAnOlderStateBeatsNoCopy(t *testing.T) {
	j := open(t, vfs.NewMem())
	answered(t, j, shown("2", 200), "2", journal.NotRejected)
	w, err := j.Append(journal.NewWrite{ID: key("a"), Op: journal.Put, Value: "2", ListBytes: 1, WrittenAt: 1, LosesTies: true})
	no(t, err)
	no(t, j.Fence.Lose(w, *shown("1", 100), "upstream holds another state"))
	expect(t, j, key("a"), journal.Settled, "2")
	if n := j.Trust.OlderAnswers()["ns"]; n != 1 {
		t.Errorf("%d older answers", n)
	}
	w, err = j.Append(journal.NewWrite{ID: key("a"), Op: journal.Put, Value: "2", ListBytes: 1, WrittenAt: 1, LosesTies: true})
	no(t, err)
	no(t, j.Fence.Lose(w, *shown("3", 300), "upstream holds another state"))
	expect(t, j, key("a"), journal.Settled, "3")
}

// If no listing was kept when upstream lost a namespace, its empty list does not prove that it never
// held an entry (contract 9).
func TestASuspectNamespaceProvesNoAbsence(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs, limits)
	confirmed(t, j, "ns", 20)
	commit(t, j, "ns", true)
	wantKept(t, j, "ns", 20, 20, true)
	for _, j := range []*journal.Journal{j, open(t, crash(fs), limits)} {
		expect(t, j, key("had its copy removed"), journal.Unknown, "")
		if l, ok, err := j.Listing("ns", allRows); err != nil || !ok || l.Complete {
			t.Errorf("complete: %v, %v", l.Complete, err)
		}
	}
}

// If upstream has lost writes, the journal rejects even the absence of one entry, regardless of the
// limits. Writes made since upstream was asked count, and an empty namespace is not suspect.
func TestDistrustKeepsEverything(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs, limits)
	commit(t, j, "ns", true, confirmed(t, j, "ns", 3)...)
	confirmed(t, j, "unlisted", 2)
	for _, namespace := range []string{"ns", "unlisted", "empty"} {
		fill := j.BeginListing(namespace)
		fill.Distrust()
		no(t, fill.Commit(nil, true))
	}
	for _, j := range []*journal.Journal{j, open(t, crash(fs), limits)} {
		wantKept(t, j, "ns", 3, 3, true)
		wantKept(t, j, "unlisted", 2, 2, true)
		wantKept(t, j, "empty", 0, 0, false)
		if _, listed, err := j.Listing("empty", 1); listed || err != nil {
			t.Errorf("a namespace of which nothing is known has a listing: %v", err)
		}
		if s, _ := j.Trust.Suspect("ns"); s.Missing != 3 || s.Of != 3 {
			t.Errorf("%+v", s)
		}
	}
	rows := confirmed(t, j, "ns", 3)
	commit(t, j, "ns", true, rows...)
	wantKept(t, j, "ns", 3, 3, false)
}

// contract 21: an earlier botwired has left a namespace of which upstream lists one entry of 20, with an older time, amid a
// restoration: 5 entries are pending. A kill at any moment of the start, or of the restoration afterwards, loses no entry.
func TestARestorationOfBefore(t *testing.T) {
	const was = "testdata/restoring-6"
	holds := func(j *journal.Journal) {
		t.Helper()
		for i := range 20 {
			if s := lookup(t, j, key("%d", i)); s.Value != "value" {
				t.Fatalf("%d: %+v", i, s)
			}
		}
		if n := j.Stats().Pending; n != 5 {
			t.Fatalf("%d are pending", n)
		}
	}
	goOn := func(fs vfs.FS) {
		t.Helper()
		j := open(t, fs, limits)
		if s, ok := j.Trust.Suspect("ns"); !ok || s.Missing < 15 || s.Of != 20 {
			t.Fatalf("%+v, %v", s, ok)
		}
		holds(j)
		commit(t, j, "ns", true) // nothing is believed that was not
		no(t, j.Evict(1))
		holds(j)
		no(t, j.Close())
	}
	mem := copyOf(t, was)
	atChanges(t, mem, sampledMoments, goOn, func(_ int, fs *vfs.MemFS) { goOn(fs) })
	goOn(mem)
}

// contract 9: what upstream's word removes, an answer, a list or a person's decision, is gone to the history, which neither
// history.disk nor a full disk makes give way.
func TestWhatIsBelievedGoneIsHistory(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *journal.Journal){
		"an answer": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			for i := range 600 {
				no(t, second(j.Fill(key("%d", i), nil, always)))
			}
		},
		"a list": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			var others []journal.Row
			for i := range 700 {
				others = append(others, journal.Row{Key: fmt.Sprint("other-", i), ListBytes: 1, UpdatedAt: 200})
			}
			commit(t, j, "ns", true, others...) // few are missing, of so many
		},
		"a decision": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			commit(t, j, "ns", true)
			fill := j.BeginListing("ns")
			fill.Believe()
			no(t, fill.Commit(nil, true))
		},
		"an answer while versions are removed": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			for i := range 600 {
				no(t, second(j.Fill(key("%d", i), nil, func() bool {
					j.CountRemoval()
					return true
				})))
			}
		},
		"a decision while versions are removed": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			fill := j.BeginListing("ns")
			fill.Believe()
			committed := make(chan error)
			go func() { committed <- fill.Commit(nil, true) }()
			for {
				select {
				case err := <-committed:
					no(t, err)
					return
				default:
					no(t, j.CountRemovalInOrder())
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs, limits)
			rows := confirmed(t, j, "ns", 600)
			for i := range 700 {
				rows = append(rows, journal.Row{Key: fmt.Sprint("other-", i), ListBytes: 1, UpdatedAt: 200})
			}
			commit(t, j, "ns", true, rows...)
			lose(t, j)
			check(t, j)
			for _, j := range []*journal.Journal{j, open(t, crash(fs), limits)} {
				no(t, j.BoundHistory(1))
				no(t, j.DropCopies())
				for i := range 600 {
					wantNoValue(t, j, key("%d", i))
					if diff := cmp.Diff([]string{"value theirs gone"}, pastOf(t, j, key("%d", i))); i%97 == 0 && diff != "" {
						t.Errorf("%d: %s", i, diff)
					}
				}
			}
		})
	}
}

// An entry with a pending write is not gone: the write says what it is. Nor is one that this daemon deletes.
func TestWhatIsPendingIsNotGone(t *testing.T) {
	j := open(t, vfs.NewMem(), limits)
	rows := confirmed(t, j, "ns", 5)
	put(t, j, key("1"), "newer")
	no(t, j.Settle(remove(t, j, key("2"))))
	commit(t, j, "ns", true, rows[0], rows[3])
	for i, want := range map[int][]string{
		1: {"newer ours pending", "value theirs shown"},
		2: {" ours settled", "value theirs shown"},
		4: {" theirs shown", "value theirs gone"},
	} {
		if diff := cmp.Diff(want, pastOf(t, j, key("%d", i))); diff != "" {
			t.Errorf("%d: %s", i, diff)
		}
	}
}
