package journal_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// conflictsDir was written by a botwired that made dead letters of conflicts between hosts.
const conflictsDir = "testdata/format-6-conflicts"

// wantMigrated checks what conflictsDir held.
func wantMigrated(t *testing.T, j *journal.Journal) {
	t.Helper()
	wantPast(t, j, key("won"), "overruled by won theirs lost", "value of won ours pending")
	wantPast(t, j, key("lost"), "winner of lost theirs current", "value of lost ours lost")
	wantPast(t, j, key("dead1"), "value of dead 1 ours lost")
	var lost []string
	versions, err := j.History.Lost("", 0, 10)
	no(t, err)
	for _, p := range versions {
		lost = append(lost, fmt.Sprint(p.Seq, " ", p.ID, " ", p.Shown))
	}
	if diff := cmp.Diff([]string{"26 ns/won true", "23 ns/lost false", "8 ns/dead1 false"}, lost); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	letters, err := j.DeadLetters(0, 10)
	no(t, err)
	if len(letters) != 1 || letters[0].Seq != 9 || letters[0].Kind != journal.Dropped {
		t.Errorf("the dead letters are %+v", letters)
	}
	if st := j.Stats(); st.Conflicts != 3 || st.DeadLetters != 1 || st.LastSeq != 28 || st.Pending != 11 {
		t.Errorf("%+v", st)
	}
	if r, err := j.Receipts.Read(t.Context(), 23); err != nil || r.State != journal.ReceiptSuperseded || r.Reason != "another host wrote later" {
		t.Errorf("%+v, %v", r, err)
	}
	no(t, j.CheckReceipts())
	check(t, j)
}

// contract 21: the dead letters that an older botwired has made of conflicts become versions at the start, however often it is
// cut off.
func TestConflictsBecomeVersions(t *testing.T) {
	mem := copyOf(t, conflictsDir)
	atChanges(t, mem, fewer, func(fs vfs.FS) {
		j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
		no(t, err)
		no(t, j.Run(t.Context()))
		wantMigrated(t, j)
		no(t, j.Close())
	}, func(i int, fs *vfs.MemFS) {
		j := open(t, fs)
		wantMigrated(t, j)
		no(t, j.Close())
	})
}

// The value of a letter is kept, also if its version was removed for room.
func TestAConflictWithoutItsVersion(t *testing.T) {
	mem := copyOf(t, conflictsDir)
	db, err := pebble.Open(dir, &pebble.Options{FS: mem.CrashClone(vfs.CrashCloneCfg{}), ReadOnly: true})
	no(t, err)
	letter, closer, err := db.Get([]byte(journal.DeadKey(23)))
	no(t, err)
	letter = slices.Clone(letter)
	no(t, closer.Close())
	no(t, db.Close())
	j := reopen(t, mem)
	no(t, j.PutBackConflict(23, letter))
	no(t, j.Close())
	j = open(t, mem)
	wantPast(t, j, key("lost"), "winner of lost theirs current", "value of lost ours lost")
	check(t, j)
}

// A recovery keeps the letters of an older botwired, and the start after it makes versions of them.
func TestConflictsAreRecovered(t *testing.T) {
	mem := copyOf(t, conflictsDir)
	names, err := mem.List(dir)
	no(t, err)
	slices.Sort(names)
	at := slices.IndexFunc(names, func(name string) bool { return filepath.Ext(name) == "" && len(name) > 8 && name[:8] == "MANIFEST" })
	no(t, mem.Remove(mem.PathJoin(dir, names[at])))
	if _, err := recoverAll(mem); err != nil {
		t.Fatal(err)
	}
	j := open(t, mem)
	wantPast(t, j, key("lost"), "winner of lost theirs current", "value of lost ours lost")
	wantPast(t, j, key("won"), "overruled by won theirs lost", "value of won ours pending")
	check(t, j)
}
