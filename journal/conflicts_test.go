package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// outagesDir was written by a botwired that made dead letters of conflicts between hosts. It was killed with conflicts that
// nobody had decided on, amid the restoration of a namespace, with the data loss of another, and with writes that waited.
// outagesText lists what it answered before the kill.
const outagesDir, outagesText = "testdata/outages-6", "testdata/outages-6.txt"

// outages lists what a journal holds of outagesDir.
func outages(t *testing.T, j *journal.Journal) string {
	t.Helper()
	var b strings.Builder
	for _, line := range strings.Split(readText(t, outagesText), "\n") {
		entry, _, ok := strings.Cut(line, " holds ")
		namespace, name, _ := strings.Cut(entry, "/")
		if !ok {
			continue
		}
		id := journal.ID{Namespace: namespace, Key: name}
		if s := lookup(t, j, id); s.Kind == journal.Value || s.Kind == journal.Settled {
			fmt.Fprintf(&b, "%s holds %q\n", id, s.Value)
		} else {
			fmt.Fprintf(&b, "%s holds nothing\n", id)
		}
		past, err := j.History.Of(id, 1000)
		no(t, err)
		slices.SortFunc(past, func(a, b journal.Past) int { return int(a.Seq) - int(b.Seq) })
		for _, p := range past {
			if p.Op == journal.Delete && p.Shown {
				continue // a refusal was followed by a look
			}
			fmt.Fprintf(&b, "  %d %s %q", p.Seq, p.Op, p.Value)
			if p.Shown {
				b.WriteString(" shown")
			}
			if p.State == journal.PastPending || p.State == journal.PastLost || p.State == journal.PastDead {
				fmt.Fprint(&b, " ", p.State)
			}
			b.WriteByte('\n')
		}
	}
	letters, err := j.DeadLetters(0, 100)
	no(t, err)
	for _, l := range letters {
		w, err := j.ReadDeadLetter(l.Seq)
		no(t, err)
		fmt.Fprintf(&b, "letter %d %s %s %q %q\n", l.Seq, l.Kind, l.ID, w.Value, l.Error)
	}
	b.WriteString("lost")
	lost, err := j.History.Lost("", 0, 100)
	no(t, err)
	for _, p := range lost {
		fmt.Fprint(&b, " ", p.Seq)
	}
	b.WriteByte('\n')
	for seq := uint64(1); seq <= j.Stats().LastSeq; seq++ {
		if r, err := j.Receipts.Read(t.Context(), seq); err == nil && r.State != journal.ReceiptSettled {
			fmt.Fprintf(&b, "receipt %d %s %q\n", seq, r.State, r.Reason)
		}
	}
	return b.String()
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	no(t, err)
	return string(text)
}

// wantOutages checks that nothing of outagesDir is lost.
func wantOutages(t *testing.T, j *journal.Journal) {
	t.Helper()
	if diff := cmp.Diff(readText(t, outagesText), outages(t, j)); diff != "" {
		t.Fatalf("(-before +now):\n%s", diff)
	}
	if st := j.Stats(); st.Conflicts != 6 || st.DeadLetters != 2 || st.LastSeq != 64 || st.Pending != 13 {
		t.Fatalf("%+v", st)
	}
	if s, ok := j.Trust.Suspect("restoring"); !ok || s.Missing != 12 || s.Of != 16 {
		t.Fatalf("%+v, %v", s, ok)
	}
	wantWiped(t, j)
	no(t, j.CheckReceipts())
	check(t, j)
}

// wantWiped checks that what upstream has lost of outagesDir is there, and that it counts as lost.
func wantWiped(t *testing.T, j *journal.Journal) {
	t.Helper()
	if s, ok := j.Trust.Suspect("wiped"); !ok || s.Missing != 10 || s.Of != 10 {
		t.Fatalf("%+v, %v", s, ok)
	}
	for i := range 10 {
		expect(t, j, journal.ID{Namespace: "wiped", Key: fmt.Sprint("k", i)}, journal.Settled, fmt.Sprint("first wiped ", i))
	}
	for _, i := range []int{0, 3, 4, 5, 6, 7, 8, 9} { // the restoration had just written them
		expect(t, j, journal.ID{Namespace: "restoring", Key: fmt.Sprint("k", i)}, journal.Value, fmt.Sprint("first restoring ", i))
	}
}

// contract 21: the dead letters that an older botwired has made of conflicts become versions at the start, and what else it
// has left amid outages stays, however often the start is cut off.
func TestConflictsBecomeVersions(t *testing.T) {
	mem := copyOf(t, outagesDir)
	atChanges(t, mem, fewer, func(fs vfs.FS) {
		j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
		no(t, err)
		no(t, j.Run(t.Context()))
		wantOutages(t, j)
		no(t, j.Close())
	}, func(i int, fs *vfs.MemFS) {
		j := open(t, fs)
		wantOutages(t, j)
		no(t, j.Close())
	})
}

// What upstream had lost then stays, though it still lists none of it, and nothing has room, however often that is cut off.
func TestADataLossOfBefore(t *testing.T) {
	mem := copyOf(t, outagesDir)
	atChanges(t, mem, sampledMoments, func(fs vfs.FS) {
		j := open(t, fs, limits)
		commit(t, j, "restoring", true)
		commit(t, j, "wiped", true)
		no(t, errors.Join(j.Evict(1), j.BoundHistory(1), j.DropCopies()))
		wantWiped(t, j)
		no(t, j.Close())
	}, func(_ int, fs *vfs.MemFS) {
		j := open(t, fs, limits)
		wantWiped(t, j)
		no(t, j.Close())
	})
}

// The value of a letter is kept, also if its version was removed for room.
func TestAConflictWithoutItsVersion(t *testing.T) {
	const seq = 37
	id := journal.ID{Namespace: "conflict", Key: "k3"}
	mem := copyOf(t, outagesDir)
	db, err := pebble.Open(dir, &pebble.Options{FS: mem.CrashClone(vfs.CrashCloneCfg{}), ReadOnly: true})
	no(t, err)
	letter, closer, err := db.Get([]byte(journal.DeadKey(seq)))
	no(t, err)
	letter = slices.Clone(letter)
	no(t, closer.Close())
	no(t, db.Close())
	j := reopen(t, mem)
	no(t, j.PutBackConflict(seq, letter))
	no(t, j.Close())
	j = open(t, mem)
	wantPast(t, j, id, "theirs 3 theirs current", "ours 3 ours lost", "first conflict 3 ours settled")
	check(t, j)
}

// A recovery keeps the letters of an older botwired, and the start after it makes versions of them.
func TestConflictsAreRecovered(t *testing.T) {
	mem := copyOf(t, outagesDir)
	names, err := mem.List(dir)
	no(t, err)
	slices.Sort(names)
	at := slices.IndexFunc(names, func(name string) bool { return filepath.Ext(name) == "" && len(name) > 8 && name[:8] == "MANIFEST" })
	no(t, mem.Remove(mem.PathJoin(dir, names[at])))
	if _, err := recoverAll(mem); err != nil {
		t.Fatal(err)
	}
	j := open(t, mem)
	wantPast(t, j, journal.ID{Namespace: "conflict", Key: "k3"}, "theirs 3 theirs current", "ours 3 ours lost", "first conflict 3 ours settled")
	wantPast(t, j, journal.ID{Namespace: "conflict", Key: "k2"}, "theirs 2 theirs lost", "ours 2 ours current", "first conflict 2 ours settled")
	check(t, j)
}
