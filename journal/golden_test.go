package journal_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

var update = flag.Bool("update", false, "make the golden directory of the present format anew")

// goldenDir is the directory that -update writes, and goldenText lists its contents.
const goldenDir, goldenText = "testdata/format-6", "testdata/format-6.txt"

// fill puts some of everything into a journal, in tables and in logs.
func fill(t testing.TB, j *journal.Journal) {
	t.Helper()
	listing := j.BeginListing("ns")
	for i := range 6 {
		put(t, j, key("settled%d", i), fmt.Sprint("value of settled ", i))
		settle(t, j, key("settled%d", i))
	}
	no(t, listing.Commit(rows("other"), true))
	for i, kind := range []journal.DeadKind{journal.Refused, journal.Refused, journal.Dropped} {
		w := put(t, j, key("dead%d", i), fmt.Sprint("value of dead ", i))
		no(t, j.DeadLetter(w, journal.Failure{Kind: kind, Status: 413, Reason: "too big"}))
	}
	no(t, second(j.Fill(key("filled"), observed("value of filled"), always)))
	put(t, j, key("rewritten"), "old")
	no(t, j.FlushTables())
	put(t, j, key("rewritten"), "new")
	for i := range 8 {
		w := put(t, j, key("pending%d", i), strings.Repeat(fmt.Sprint("value ", i, " "), 5))
		if i%3 == 0 {
			sent(t, j, w)
			put(t, j, w.ID, strings.Repeat(fmt.Sprint("value ", i, " "), 6))
		}
	}
	remove(t, j, key("settled0"))
	remove(t, j, key("never"))
	settle(t, j, key("pending7"))
	no(t, j.Discard(7))
	fillFenced(t, j)
}

// fillFenced puts the fence's records into a journal.
func fillFenced(t testing.TB, j *journal.Journal) {
	t.Helper()
	lost := put(t, j, key("lost"), "value of lost")
	no(t, j.Fence.Lose(lost, foreign("winner of lost", 20), "another host wrote later"))
	won, err := j.Append(journal.NewWrite{
		ID: key("won"), Op: journal.Put, Value: "value of won", ListBytes: 12, WrittenAt: 30, LosesTies: true, Fenced: true,
	})
	no(t, err)
	sent(t, j, won)
	no(t, j.Fence.KeepOverwritten(won.ID, foreign("overruled by won", 25)))
	late := put(t, j, key("late"), "value of late")
	late.SentAfter = 40
	no(t, j.Settle(late))
}

// dump lists every record of a journal, one per line.
func dump(t testing.TB, j *journal.Journal) string {
	t.Helper()
	text, err := tryDump(j)
	no(t, err)
	return text
}

func tryDump(j *journal.Journal) (string, error) {
	var b strings.Builder
	st := j.Stats()
	onDisk := st.PendingBytes - int64(st.Pending)*(journal.EntryMemory-64) // as the format counts
	fmt.Fprintf(&b, "seq %d pending %d (%d bytes) dead %d (%d bytes)\n", st.LastSeq, st.Pending, onDisk, st.DeadLetters, st.DeadBytes)
	ids := []journal.ID{key("rewritten"), key("never"), key("filled"), key("other")}
	for i := range 8 {
		ids = append(ids, key("settled%d", i), key("dead%d", i), key("pending%d", i))
	}
	ids = append(ids, key("won"), key("lost"), key("late"))
	for _, id := range ids {
		s, err := j.Lookup(id)
		if err != nil {
			return "", err
		}
		if s.Kind == journal.Absent {
			s.Kind = journal.Unknown // the listing is below
		}
		fmt.Fprintf(&b, "%s kind %d seq %d %q %d %f %f\n", id, s.Kind, s.Seq, s.Value, s.ListBytes, s.CreatedAt, s.UpdatedAt)
		if err := dumpFenced(&b, j, id); err != nil {
			return "", err
		}
	}
	letters, err := j.DeadLetters(0, 1000)
	if err != nil {
		return "", err
	}
	for _, l := range letters {
		fmt.Fprintf(&b, "dead %d %s %s %d %q %f %f", l.Seq, l.ID, l.Op, l.Status, l.Error, l.UpdatedAt, l.RefusedAt)
		if l.Kind != journal.Refused || l.SupersededBy != 0 {
			fmt.Fprintf(&b, " kind %d by %d", l.Kind, l.SupersededBy)
		}
		b.WriteByte('\n')
	}
	lost, err := j.History.Lost("", 0, 1000)
	if err != nil {
		return "", err
	}
	for _, p := range lost {
		fmt.Fprintf(&b, "lost %d %s %s shown %v apart %v %f\n", p.Seq, p.ID, p.Op, p.Shown, p.Apart, p.WrittenAt)
	}
	if err := dumpReceipts(&b, j); err != nil {
		return "", err
	}
	for _, name := range []string{"pending0", "pending3", "pending6", "won"} {
		left, known, err := j.Left(journal.Write{ID: key("%s", name)})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "left of %s %v %x\n", name, known, left)
	}
	ago, ok, err := j.LastSending()
	if err != nil {
		return "", err
	}
	fmt.Fprintln(&b, "sending", ago, ok)
	l, ok, err := j.Listing("ns", allRows)
	fmt.Fprintf(&b, "listing %v %v %v\n", ok, l.Complete, l.FetchedAt.UTC())
	for _, r := range l.Rows {
		fmt.Fprintf(&b, "row {Key:%s ListBytes:%d UpdatedAt:%v}", r.Key, r.ListBytes, r.UpdatedAt)
		if r.Origin.Seq != 0 {
			fmt.Fprintf(&b, " of write %d at %v", r.Origin.Seq, r.Origin.At)
		}
		b.WriteByte('\n')
	}
	return b.String(), err
}

// dumpFenced lists the data that the fence compares.
func dumpFenced(to io.Writer, j *journal.Journal, id journal.ID) error {
	w, ok, err := j.Newest(id)
	if ok && (w.WrittenAt != w.UpdatedAt || w.LosesTies || w.Fenced) {
		fmt.Fprintf(to, "%s written at %f yields %v fenced %v\n", id, w.WrittenAt, w.LosesTies, w.Fenced)
	}
	if err != nil {
		return err
	}
	base, err := j.Fence.Base(id)
	if base.Origin.Known() != 0 {
		fmt.Fprintf(to, "base of %s %+v\n", id, base.Origin)
	}
	return err
}

// dumpReceipts lists the receipts of the writes that have ended.
func dumpReceipts(to io.Writer, j *journal.Journal) error {
	for seq := uint64(1); seq <= min(j.Stats().LastSeq, 50); seq++ { // a recovery leaves a large gap
		r, err := j.Receipts.Read(context.Background(), seq)
		if errors.Is(err, journal.ErrNoReceipt) || err == nil && r.State == journal.ReceiptPending {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "receipt %d %s %s %s by %d %q %f %f\n", seq, r.ID, r.Op, r.State, r.By, r.Reason, r.WrittenAt, r.SettledAt)
	}
	return nil
}

func makeGolden(t *testing.T) {
	t.Helper()
	const at = goldenDir
	no(t, os.RemoveAll(at))
	j, err := journal.Open(journal.Options{Dir: at})
	no(t, err)
	no(t, j.Run(t.Context()))
	fill(t, j)
	no(t, j.Close())
	j, err = journal.Open(journal.Options{Dir: at})
	no(t, err)
	no(t, j.Run(t.Context()))
	put(t, j, key("pending0"), "newest")
	no(t, os.WriteFile(goldenText, []byte(dump(t, j)), 0o600))
	no(t, j.Close())
	no(t, os.Remove(filepath.Join(at, "LOCK")))
	logs, err := filepath.Glob(filepath.Join(at, "*.log"))
	no(t, err)
	for _, log := range logs {
		text, err := os.ReadFile(log)
		no(t, err)
		no(t, os.Truncate(log, int64(len(bytes.TrimRight(text, "\x00"))))) // Pebble allocates 9 MB, and the tests read all of it
	}
}

// contract 21: a directory of the present format can be opened, with its contents intact.
func TestGoldenDirectory(t *testing.T) {
	if *update {
		makeGolden(t)
	}
	at := filepath.Join(t.TempDir(), "journal")
	copied, err := vfs.Clone(vfs.Default, vfs.Default, goldenDir, at)
	if err != nil || !copied {
		t.Fatal(copied, err)
	}
	want, err := os.ReadFile(goldenText)
	no(t, err)
	for range 2 { // first as it was written, then as the first opening has left it
		j, err := journal.Open(journal.Options{Dir: at})
		no(t, err)
		no(t, j.Run(t.Context()))
		check(t, j)
		if diff := cmp.Diff(string(want), dump(t, j)); diff != "" {
			t.Error(diff)
		}
		no(t, j.Close())
	}
}

// pebbleVersion returns the version of Pebble's format that a directory's file names show.
func pebbleVersion(t *testing.T, names []string) string {
	t.Helper()
	version := ""
	for _, name := range names {
		if strings.HasPrefix(name, "marker.format-version.") {
			version = name[strings.LastIndexByte(name, '.')+1:]
		}
	}
	if version == "" {
		t.Fatalf("no version in %v", names)
	}
	return version
}

// contract 21: the version of Pebble's own format is pinned. If a newer library raised it, every older
// botwired would call a healthy journal damaged.
func TestPebbleFormatIsPinned(t *testing.T) {
	fs := vfs.NewMem()
	open(t, fs)
	made, err := fs.List(dir)
	no(t, err)
	golden, err := vfs.Default.List(goldenDir)
	no(t, err)
	if got, want := pebbleVersion(t, made), pebbleVersion(t, golden); got != want {
		t.Errorf("a new journal has Pebble's format %s, and the golden directory has %s", got, want)
	}
}

// goldenCopy returns a file system with the golden directory.
func goldenCopy(t *testing.T) *vfs.MemFS {
	t.Helper()
	return copyOf(t, goldenDir)
}

// copyOf returns a file system with a directory of testdata as the journal's.
func copyOf(t *testing.T, golden string) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	no(t, mem.MkdirAll(mem.PathDir(dir), 0o700))
	_, err := vfs.Clone(vfs.Default, mem, golden, dir, vfs.CloneSync)
	no(t, err)
	for _, up := range []string{"/", mem.PathDir(dir), dir} {
		d, err := mem.OpenDir(up)
		no(t, err)
		no(t, errors.Join(d.Sync(), d.Close()))
	}
	return mem
}

// sampledMoments is the step between the moments that a test checks. It is odd because each change has
// two moments, and at the second the power cut keeps everything.
const sampledMoments = fewer | 1

// atChanges cuts the power at the changes that use makes to the file system, at every step-th of two
// moments for each change, and calls do with the remains.
func atChanges(t *testing.T, mem *vfs.MemFS, step int, use func(vfs.FS), do func(i int, fs *vfs.MemFS)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	var mu sync.Mutex // Pebble also changes files in the background
	var clones []*vfs.MemFS
	each := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			// Not 50: Pebble assumes that a directory keeps the order of its changes. It names a
			// manifest before the manifest's own directory entry is synced.
			for _, kept := range []int{0, 100} {
				clones = append(clones, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rng}))
			}
		}
		return nil
	})
	use(errorfs.Wrap(mem, each))
	mu.Lock()
	defer mu.Unlock()
	if len(clones) < 40 {
		t.Fatalf("only %d moments", len(clones))
	}
	t.Logf("%d moments", len(clones))
	for i := 0; i < len(clones); i += step {
		do(i, clones[i])
	}
}
