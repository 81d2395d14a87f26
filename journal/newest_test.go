package journal_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

func names(o *journal.Options) { o.Named = func(namespace string) bool { return namespace == "ns" } }

// wantOlder fails the test unless an answer is refused and leaves nothing.
func wantOlder(t *testing.T, j *journal.Journal, o *journal.Observation) {
	t.Helper()
	if state, err := j.Fill(key("a"), o, always); !errors.Is(err, journal.ErrOlder) {
		t.Errorf("%q left %q, %v", o.Value, state.Value, err)
	}
	wantNoValue(t, j, key("a"))
}

// Where versions name their times, an older one does not count for a journal that has dropped its copy of a newer one: the
// newer one is the copy again, from the history. Without a history, the answer is refused. The next newer one counts.
func TestNewestStateOutlivesItsCopy(t *testing.T) {
	for name, newer := range map[string]func(t *testing.T, j *journal.Journal){
		"shown": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			answered(t, j, named("2", 200, 60), "2", journal.NotRejected)
		},
		"written": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			w := put(t, j, key("a"), "2")
			w.MadeAt = 60
			no(t, j.Settle(w))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs, names)
			answered(t, j, named("1", 100, 50), "1", journal.NotRejected)
			newer(t, j)
			no(t, j.EvictCopies(t.Context()))
			wantNoValue(t, j, key("a"))
			for _, j := range []*journal.Journal{open(t, crash(fs), names), j} {
				if state := answered(t, j, named("1", 900, 50), "2", journal.OlderAnswer); state.MadeAt != 60 {
					t.Errorf("it was made at %v", state.MadeAt)
				}
			}
			no(t, j.DropCopies())
			for _, j := range []*journal.Journal{open(t, crash(fs), names), j} {
				wantOlder(t, j, named("1", 900, 50))
			}
			answered(t, j, named("2", 901, 60), "2", journal.NotRejected)
			no(t, j.DropCopies())
			answered(t, j, named("3", 902, 61), "3", journal.NotRejected)
			check(t, j)
		})
	}
}

// An answer that leaves no copy, on a caller's wish or for want of room, is known all the same.
func TestNewestStateOfAnAnswerThatIsNotKept(t *testing.T) {
	j := open(t, vfs.NewMem(), names)
	for _, o := range []*journal.Observation{named("1", 100, 50), named("2", 200, 60)} {
		no(t, second(j.Fill(key("a"), o, always, journal.NoNewCopy)))
		wantNoValue(t, j, key("a"))
	}
	wantOlder(t, j, named("1", 300, 50))
}

// A state that gives way to a delete, or to a person's word, is not known any more.
func TestNewestStateGivesWay(t *testing.T) {
	for name, give := range map[string]func(t *testing.T, j *journal.Journal){
		"to a delete": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			remove(t, j, key("a"))
			settle(t, j, key("a"))
		},
		"to another host's delete": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			no(t, second(j.Fill(key("a"), nil, always)))
		},
		"to a listing": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			commit(t, j, "ns", true)
		},
		"to a person who forgets it": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			no(t, second(j.Disk.Forget(key("a"))))
		},
		"to a person who forgets the namespace": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			l := j.BeginListing("ns")
			l.Believe()
			no(t, l.Commit(rows("a"), true))
		},
		"to a purge": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			no(t, second(j.Purge(t.Context(), "ns", "a", 1<<40)))
		},
		"to a purge of the namespace": func(t *testing.T, j *journal.Journal) {
			t.Helper()
			no(t, second(j.Purge(t.Context(), "ns", "", 1<<40)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := open(t, vfs.NewMem(), names)
			answered(t, j, named("2", 200, 60), "2", journal.NotRejected)
			no(t, j.EvictCopies(t.Context()))
			give(t, j)
			answered(t, j, named("1", 300, 50), "1", journal.NotRejected)
		})
	}
}

// A person who forgets a namespace believes the older state that upstream lists, also while the newer one has its copy.
func TestForgettingTakesTheNewestState(t *testing.T) {
	j := open(t, vfs.NewMem(), names)
	answered(t, j, named("2", 200, 60), "2", journal.NotRejected)
	commit(t, j, "ns", true, journal.Row{Key: "a", ListBytes: 1, UpdatedAt: 200})
	l := j.BeginListing("ns")
	l.Believe()
	no(t, l.Commit([]journal.Row{{Key: "a", ListBytes: 1, UpdatedAt: 100}}, true))
	answered(t, j, named("1", 100, 50), "1", journal.NotRejected)
	wantPast(t, j, key("a"), "1 theirs current", "2 theirs gone")
}

// What upstream may have lost, or has only not listed, is no delete.
func TestNewestStateStaysWithoutADelete(t *testing.T) {
	for name, commitOf := range map[string]func(t *testing.T, j *journal.Journal){
		"data loss":             func(t *testing.T, j *journal.Journal) { t.Helper(); commit(t, j, "ns", true) },
		"an incomplete listing": func(t *testing.T, j *journal.Journal) { t.Helper(); commit(t, j, "ns", false) },
	} {
		t.Run(name, func(t *testing.T) {
			j := open(t, vfs.NewMem(), names, limits)
			all := confirmed(t, j, "ns", 20)
			answered(t, j, named("2", 200, 60), "2", journal.NotRejected)
			commit(t, j, "ns", true, append(all, rows("a")...)...)
			no(t, j.EvictCopies(t.Context()))
			commitOf(t, j)
			answered(t, j, named("1", 300, 50), "2", journal.OlderAnswer)
		})
	}
}

// Elsewhere upstream is asked again, and believed.
func TestDroppedCopiesWithoutNames(t *testing.T) {
	j := open(t, vfs.NewMem())
	answered(t, j, shown("2", 200), "2", journal.NotRejected)
	no(t, j.EvictCopies(t.Context()))
	answered(t, j, shown("1", 100), "1", journal.NotRejected)
}

// A loser's winner that is older than what was known of the entry does not become the copy.
func TestOlderWinnerDoesNotCount(t *testing.T) {
	j := open(t, vfs.NewMem(), names)
	answered(t, j, named("2", 200, 60), "2", journal.NotRejected)
	no(t, j.EvictCopies(t.Context()))
	w := put(t, j, key("a"), "mine")
	no(t, j.Fence.Lose(w, *named("1", 300, 50), "later"))
	wantNoValue(t, j, key("a"))
}

// A table that is damaged loses the copies and the history in it, but not what upstream could never tell again.
func TestNewestStateOutlivesADamagedTable(t *testing.T) {
	mem := vfs.NewMem()
	j := open(t, mem, names)
	answered(t, j, named("2", 200, 60), "2", journal.NotRejected)
	for i := range 50 {
		no(t, second(j.Fill(key("filled%d", i), named(noise(10<<10), 200, 60), always)))
	}
	no(t, j.FlushTables())
	j.MarkNow()
	w := &worn{victim: victim{files: readAll(t, mem)}}
	refused, believed := 0, 0
	for _, bad := range w.blocks(t) {
		if bad.what != "data" {
			continue
		}
		damaged := vfs.NewMem()
		no(t, w.write(damaged, w.damage(bad)))
		j, err := journal.Open(journal.WithoutPause(journal.Options{Dir: dir, FS: damaged, Named: func(string) bool { return true }}))
		if err != nil {
			continue // a record is damaged that must stay
		}
		if err := j.Run(t.Context()); err == nil {
			for i := range 50 {
				lookup(t, j, key("filled%d", i))
			}
			no(t, j.MaintainOnce())
			switch state, err := j.Fill(key("a"), named("1", 300, 50), always); {
			case errors.Is(err, journal.ErrOlder):
				refused++
			case err == nil && state.Value == "1":
				believed++ // the record itself is damaged
			default:
				no(t, err)
			}
		}
		no(t, j.Close())
	}
	if refused == 0 || believed > 1 {
		t.Errorf("%d damaged blocks left the newest state known, and %d did not", refused, believed)
	}
}
