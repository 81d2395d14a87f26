package journal_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// damaged makes a journal of some writes, changes its store, and opens it again.
func damaged(t *testing.T, damage func(*journal.Journal) error) (*journal.Journal, error) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	for _, k := range []string{"a", "b", "c", "dead"} {
		put(t, j, key("%s", k), "value of "+k)
	}
	w, _, err := j.Newest(key("dead"))
	no(t, err)
	no(t, j.Bury(w, 400, "bad"))
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

// contract 4: what is not as it was written stops the start.
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

func TestDamagedCopyIsNotAnswered(t *testing.T) {
	j, err := damaged(t, func(j *journal.Journal) error {
		return errors.Join(j.Flip("s/ns/c"), j.Damage("h/ns", []byte("xxxxxxxxxx")))
	})
	no(t, err)
	no(t, j.Run(t.Context()))
	mustBeCorrupt(t, second(j.Lookup(key("c"))))
	_, _, err = j.Listing("ns")
	mustBeCorrupt(t, err)
	// What fails on the way leaves the totals as they were.
	w := put(t, j, key("c"), "1")
	mustBeCorrupt(t, j.Settle(w))
	check(t, j)
	put(t, j, key("d"), "1")
	check(t, j)
}

// A pending write that vanishes while the journal is open is an error, not a reader
// that looks for it for ever.
func TestVanishedWriteIsAnError(t *testing.T) {
	j := open(t, vfs.NewMem())
	w := put(t, j, key("a"), "1")
	no(t, j.Damage(journal.PendingKey(w.ID, w.Seq), nil))
	mustBeCorrupt(t, second(j.Lookup(w.ID)))
	_, _, err := j.Newest(w.ID)
	mustBeCorrupt(t, err)
}

// A rebuild that was stopped does not count as done, and can be begun again.
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
