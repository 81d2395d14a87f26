package journal_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// damaged makes a journal with some writes, changes its store, and opens it again.
func damaged(t *testing.T, damage func(*journal.Journal) error) (*journal.Journal, error) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	for _, k := range []string{"a", "b", "c", "dead"} {
		put(t, j, key("%s", k), "value of "+k)
	}
	w, _, err := j.Newest(key("dead"))
	no(t, err)
	no(t, j.DeadLetter(w, journal.Failure{Status: 400, Reason: "bad"}))
	settle(t, j, key("c"))
	no(t, damage(j))
	j, err = journal.Open(journal.Options{Dir: dir, FS: crash(fs)})
	if err == nil {
		t.Cleanup(func() { no(t, j.Close()) })
	}
	return j, err
}

func mustBeCorrupt(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, journal.ErrCorrupt) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "value of") {
		t.Errorf("error is %v", err)
	}
}

// contract 4: a damaged record stops the start.
func TestDamagedStoreDoesNotStart(t *testing.T) {
	pending := journal.PendingKey(key("b"), 2)
	for name, damage := range map[string]func(*journal.Journal) error{
		"lost pending write":      func(j *journal.Journal) error { return j.Damage(pending, nil) },
		"changed pending write":   func(j *journal.Journal) error { return j.Damage(pending, []byte("not what was written")) },
		"flipped bit":             func(j *journal.Journal) error { return j.Flip(pending) },
		"flipped bit in a letter": func(j *journal.Journal) error { return j.Flip(journal.DeadKey(4)) },
		"flipped bit in state":    func(j *journal.Journal) error { return j.Flip("m/state") },
		"truncated pending write": func(j *journal.Journal) error { return j.Damage(pending, []byte("x")) },
		"strange pending key":     func(j *journal.Journal) error { return j.Damage("p/x", []byte("x")) },
		"lost dead letter":        func(j *journal.Journal) error { return j.Damage(journal.DeadKey(4), nil) },
		"strange dead letter":     func(j *journal.Journal) error { return j.Damage("d/x", []byte("x")) },
		"lost state record":       func(j *journal.Journal) error { return j.Damage("m/state", nil) },
		"changed state record":    func(j *journal.Journal) error { return j.Damage("m/state", []byte("not what was written")) },
	} {
		t.Run(name, func(t *testing.T) {
			j, err := damaged(t, damage)
			if err == nil {
				err = j.Run(t.Context())
			}
			mustBeCorrupt(t, err)
		})
	}
}

// contract 4: a damaged copy stops nothing, because upstream can be asked again. The journal never
// invents a copy.
func TestDamagedCopyIsNotAnswered(t *testing.T) {
	j := withDamagedCopies(t, "h/ns")
	expect(t, j, key("c"), journal.Unknown, "")
	if _, ok, err := j.Listing("ns", allRows); ok || err != nil {
		t.Errorf("listing: %v, %v", ok, err)
	}
}

func TestDamagedCopyIsReplaced(t *testing.T) {
	c := key("c")
	for name, replace := range map[string]func(*testing.T, *journal.Journal){
		"settled": func(t *testing.T, j *journal.Journal) {
			put(t, j, c, "1")
			expect(t, j, c, journal.Value, "1")
			settle(t, j, c)
			expect(t, j, c, journal.Settled, "1")
		},
		"deleted": func(t *testing.T, j *journal.Journal) {
			no(t, j.Settle(remove(t, j, c)))
			wantNoValue(t, j, c)
		},
		"filled": func(t *testing.T, j *journal.Journal) {
			no(t, second(j.Fill(c, observed("1"), always)))
			expect(t, j, c, journal.Settled, "1")
		},
		"absent": func(t *testing.T, j *journal.Journal) {
			no(t, second(j.Fill(c, nil, always)))
			wantNoValue(t, j, c)
		},
		"buried after it was sent": func(t *testing.T, j *journal.Journal) {
			no(t, j.DeadLetter(sent(t, j, put(t, j, c, "1")), journal.Failure{Status: 422, Reason: "no"}))
			expect(t, j, c, journal.Unknown, "")
		},
	} {
		for _, listing := range []string{"h/ns", "l/ns/c"} {
			t.Run(name+"/"+listing, func(t *testing.T) {
				j := withDamagedCopies(t, listing)
				replace(t, j)
				check(t, j)
				if h, err := j.Holdings(); err != nil || listing == "h/ns" && h.Copies != (name != "absent" && name != "deleted") {
					t.Errorf("it holds %+v, %v", h, err)
				}
				no(t, j.BeginListing("ns").Commit(rows("x"), true))
				l, ok, err := j.Listing("ns", allRows)
				no(t, err)
				if !ok || len(l.Rows) != 1 || l.Rows[0].Key != "x" {
					t.Errorf("the next listing is %+v", l)
				}
			})
		}
	}
}

// withDamagedCopies opens a journal with a damaged copy of c, and a listing with one damaged record.
func withDamagedCopies(t *testing.T, listing string) *journal.Journal {
	t.Helper()
	j, err := damaged(t, func(j *journal.Journal) error {
		return errors.Join(
			j.BeginListing("ns").Commit(rows("c", "old"), true),
			j.Flip("s/ns/c"), j.Flip(listing),
		)
	})
	no(t, err)
	no(t, j.Run(t.Context()))
	return j
}

// If a pending write vanishes while the journal is open, a reader gets an error instead of searching
// forever, and the process ends.
func TestVanishedWriteIsAnError(t *testing.T) {
	ends := 0
	j, err := journal.Open(journal.Options{Dir: dir, FS: vfs.NewMem(), Fatal: func(error) { ends++ }})
	no(t, err)
	defer func() { _ = j.Close() }()
	no(t, j.Run(t.Context()))
	w := put(t, j, key("a"), "1")
	no(t, j.Damage(journal.VersionKey(w.ID, w.Seq), nil))
	mustBeCorrupt(t, second(j.Lookup(w.ID)))
	_, _, err = j.Newest(w.ID)
	mustBeCorrupt(t, err)
	if ends != 1 {
		t.Errorf("the process was ended %d times", ends)
	}
}

// A rebuild that was stopped does not count as complete, and can be started again.
func TestRebuildStopped(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	for i := range 2000 {
		no(t, write(j, key("%d", i), 1))
	}
	j = reopen(t, crash(fs))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := j.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
	select {
	case <-j.Rebuilt():
		t.Error("counts as rebuilt")
	default:
	}
	no(t, j.Run(t.Context()))
	no(t, j.Run(t.Context()))
	<-j.Rebuilt()
	if st := j.Stats(); st.Pending != 2000 || st.Rebuilding {
		t.Errorf("stats are %+v", st)
	}
	check(t, j)
}
