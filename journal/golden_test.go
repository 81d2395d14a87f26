package journal_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

var update = flag.Bool("update", false, "make the golden directory of the present format anew")

// oldestFormat is the first version that the journal reads, and presentFormat the one that -update writes.
// The directory of the older format is never rewritten.
const oldestFormat, presentFormat = 5, 6

// fill puts some of everything into a journal, in tables and in logs.
func fill(t testing.TB, j *journal.Journal) {
	t.Helper()
	listing := j.BeginListing("ns")
	for i := range 6 {
		put(t, j, key("settled%d", i), fmt.Sprint("value of settled ", i))
		settle(t, j, key("settled%d", i))
	}
	no(t, listing.Commit(rows("other"), true))
	for i, kind := range []journal.DeadKind{journal.Refused, journal.Superseded, journal.Dropped} {
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
			no(t, j.MarkSent(w))
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
	no(t, j.MarkSent(won, journal.ContentOf(journal.Delete, "")))
	no(t, j.Fence.KeepOverwritten(won, foreign("overruled by won", 25), "another host wrote earlier"))
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
		if l.Winner != nil {
			fmt.Fprintf(&b, " theirs %v beaten by %+v", l.Theirs, *l.Winner)
		}
		b.WriteByte('\n')
	}
	if err := dumpReceipts(&b, j); err != nil {
		return "", err
	}
	doubt, err := j.InDoubt()
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "in doubt %v\n", entriesOf(doubt))
	for _, d := range doubt {
		if len(d.Contents) > 0 {
			fmt.Fprintf(&b, "sent %s %x\n", d.ID, d.Contents)
		}
	}
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

func goldenDir(version int) string { return filepath.Join("testdata", fmt.Sprint("format-", version)) }

func makeGolden(t *testing.T, version int) {
	t.Helper()
	at := goldenDir(version)
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
	no(t, os.WriteFile(at+".txt", []byte(dump(t, j)), 0o600))
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

// contract 21: a directory of each format that the journal reads can be opened, with its contents intact.
func TestGoldenDirectories(t *testing.T) {
	if *update {
		makeGolden(t, presentFormat)
	}
	for version := oldestFormat; version <= presentFormat; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "journal")
			copied, err := vfs.Clone(vfs.Default, vfs.Default, goldenDir(version), at)
			if err != nil || !copied {
				t.Fatal(copied, err)
			}
			want, err := os.ReadFile(goldenDir(version) + ".txt")
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
		})
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
	for version := oldestFormat; version <= presentFormat; version++ {
		golden, err := vfs.Default.List(goldenDir(version))
		no(t, err)
		if got, want := pebbleVersion(t, made), pebbleVersion(t, golden); got != want {
			t.Errorf("a new journal has Pebble's format %s, one of format %d has %s", got, version, want)
		}
	}
}
