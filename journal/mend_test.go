package journal_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal"
)

// flawless makes the directory of a killed process. One table has pending writes, a dead letter and
// copies.
func flawless(t *testing.T) map[string]string {
	t.Helper()
	mem := vfs.NewMem()
	j := open(t, mem)
	for i := range 5 {
		sent(t, j, put(t, j, key("pending%d", i), "sent before"))
		put(t, j, key("pending%d", i), fmt.Sprint(i)+noise(8<<10))
	}
	no(t, j.DeadLetter(put(t, j, key("dead"), "x"), journal.Failure{Status: 413, Reason: "too big"}))
	for i := range 40 {
		no(t, second(j.Fill(key("copy%02d", i), observed(fmt.Sprint(i)+noise(8<<10)), always)))
	}
	no(t, j.FlushTables())
	j.MarkNow()
	return readAll(t, mem)
}

// flawed returns the same directory with a damaged block, of the copies or of the writes.
func flawed(t *testing.T, of string) map[string]string {
	t.Helper()
	files := flawless(t)
	name := largest(files)
	files[name] = flip(t, files[name], of)
	return files
}

func logNames(files map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return !strings.HasSuffix(name, ".log") })
}

// largest names the largest table.
func largest(files map[string]string) (name string) {
	for n, text := range files {
		if strings.HasSuffix(n, ".sst") && (name == "" || len(text) > len(files[name])) {
			name = n
		}
	}
	return name
}

// flip changes a byte of a table, in the middle block of the copies or of the writes.
func flip(t *testing.T, text, of string) string {
	t.Helper()
	mem := diskWith(t, map[string]string{"000001.sst": text})
	var hit []block.Handle
	for _, h := range layoutOf(t, mem, "000001.sst")["data"] {
		if strings.Contains(text[h.Offset:h.Offset+h.Length], of) {
			hit = append(hit, h)
		}
	}
	if len(hit) < 3 {
		t.Fatalf("%d blocks of %s", len(hit), of)
	}
	flipped := []byte(text)
	h := hit[len(hit)/2]
	flipped[h.Offset+h.Length/2] ^= 1
	return string(flipped)
}

// overwrite damages a table of an open journal.
func overwrite(t *testing.T, mem vfs.FS, name, text string) {
	t.Helper()
	f, err := mem.OpenReadWrite(mem.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
	no(t, err)
	no(t, second(f.WriteAt([]byte(text), 0)))
	no(t, f.Close())
}

// damageCopies damages the copies' values in the largest table of an open journal.
func damageCopies(t *testing.T, mem vfs.FS) {
	t.Helper()
	damageLargest(t, mem, "v/ns/copy")
}

func damageLargest(t *testing.T, mem vfs.FS, of string) {
	t.Helper()
	files := readAll(t, mem)
	name := largest(files)
	overwrite(t, mem, name, flip(t, files[name], of))
}

// withUnreadCopies gives an open journal so many copies that their records fill some blocks, and damages
// one of these blocks.
func withUnreadCopies(t *testing.T, j *journal.Journal, mem vfs.FS) (ids []journal.ID) {
	t.Helper()
	for i := range 400 {
		ids = append(ids, key("copy%03d", i))
		no(t, second(j.Fill(ids[i], observed(fmt.Sprint(i)), always)))
	}
	no(t, j.FlushTables())
	damageLargest(t, mem, "s/ns/copy")
	return ids
}

// holds checks that the directory starts with all acknowledged writes, and is mended: nobody knows what was sent. It returns
// the number of copies.
func holds(t *testing.T, fs vfs.FS, more ...string) (copies int) {
	t.Helper()
	j := open(t, fs)
	for i := range 5 {
		expect(t, j, key("pending%d", i), journal.Value, fmt.Sprint(i)+noise(8<<10))
	}
	for _, name := range more {
		expect(t, j, key("%s", name), journal.Value, name)
	}
	letters, err := j.DeadLetters(0, 10)
	if err != nil || len(letters) != 1 || letters[0].ID != key("dead") {
		t.Errorf("dead letters are %+v, %v", letters, err)
	}
	for i := range 5 {
		if _, known, err := j.Left(journal.Write{ID: key("pending%d", i)}); known || err != nil {
			t.Errorf("what was sent of %d is known, %v", i, err)
		}
	}
	for i := range 40 {
		switch state := lookup(t, j, key("copy%02d", i)); {
		case state.Kind == journal.Settled && state.Value == fmt.Sprint(i)+noise(8<<10):
			copies++
		case state.Kind != journal.Unknown:
			t.Errorf("copy %d is %+v", i, state.Kind)
		}
	}
	check(t, j)
	return copies
}

// A complete listing drops the copies that upstream no longer holds, even if it cannot read all of
// them.
func TestListingOverDamagedCopies(t *testing.T) {
	mem := vfs.NewMem()
	j := open(t, mem)
	ids := withUnreadCopies(t, j, mem)
	no(t, j.BeginListing("ns").Commit(rows("copy000"), true))
	for _, id := range ids[1:] {
		expect(t, j, id, journal.Absent, "")
	}
	if l, ok, err := j.Listing("ns", allRows); !ok || err != nil || len(l.Rows) != 1 {
		t.Errorf("the listing is %+v, %v, %v", l.Rows, ok, err)
	}
	check(t, j)
}

// tableFrom names the newest table that begins with a record of this kind.
func tableFrom(t *testing.T, j *journal.Journal, kind string) (name string) {
	t.Helper()
	levels, err := j.DB().SSTables()
	no(t, err)
	for _, level := range levels {
		for _, table := range level {
			if strings.HasPrefix(string(table.Smallest.UserKey), kind) {
				name = max(name, fmt.Sprintf("%06d.sst", uint64(table.BackingSSTNum)))
			}
		}
	}
	if name == "" {
		t.Fatalf("no table begins with %s: %s", kind, j.DB().DebugString())
	}
	return name
}

// lines counts the lines of a log.
type lines struct{ atomic.Int64 }

func (l *lines) Write(p []byte) (int, error) { l.Add(1); return len(p), nil }

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// aside returns the damaged directories that are kept.
func aside(t *testing.T, fs vfs.FS) (kept []string) {
	t.Helper()
	names, err := fs.List(fs.PathDir(dir))
	no(t, err)
	for _, name := range names {
		if strings.Contains(name, ".damaged-") && !strings.HasSuffix(name, ".json") {
			kept = append(kept, fs.PathJoin(fs.PathDir(dir), name))
		}
	}
	return kept
}

// contract 4: a start mends a table with damaged copies, also one that has pending writes, and keeps the damaged directory as
// it was, with a report. The next start finds nothing.
func TestDamagedCopiesBesideWrites(t *testing.T) {
	files := flawed(t, "v/ns/copy")
	mem := diskWith(t, files)
	for range 2 {
		j := open(t, mem)
		for i := range 5 {
			expect(t, j, key("pending%d", i), journal.Value, fmt.Sprint(i)+noise(8<<10))
		}
		if state, last := j.Stats(), put(t, j, key("next"), "1"); state.DamagedFiles != 0 || last.Seq < 1<<20 {
			t.Errorf("%+v, and the next write is %d", state, last.Seq)
		}
		no(t, j.Settle(last(t, j)))
		no(t, j.Close())
	}
	if n := holds(t, mem); n == 0 || n == 40 {
		t.Errorf("%d copies are left", n)
	}
	kept := aside(t, mem)
	if len(kept) != 1 {
		t.Fatalf("it keeps %v", kept)
	}
	was := filesIn(t, mem, kept[0])
	if !maps.Equal(was, files) {
		t.Error("the damaged directory is not what it was")
	}
	_, err := mem.Stat(kept[0] + ".json")
	no(t, err)
}

func last(t *testing.T, j *journal.Journal) journal.Write {
	t.Helper()
	w, _, err := j.Newest(key("next"))
	no(t, err)
	return w
}

// contract 4: a damaged pending write stops the start, which changes nothing. A recovery names it, and keeps the others.
func TestDamagedWriteStopsTheStart(t *testing.T) {
	files := flawed(t, "v/ns/pending")
	logs := logNames(files)
	for _, log := range logs[:len(logs)-1] { // of which all is in the table
		delete(files, log)
	}
	mem := diskWith(t, files)
	_, err := journal.Open(journal.Options{Dir: dir, FS: mem})
	mustBeCorrupt(t, err)
	if names, err := mem.List(mem.PathDir(dir)); err != nil || len(names) != 1 || !maps.Equal(files, readAll(t, mem)) {
		t.Errorf("it has left %v, %v", names, err)
	}
	r, err := recoverAll(mem)
	if err != nil || r.Healthy || r.Complete() || r.Salvaged.Pending != 4 || r.Missing.Pending != 1 ||
		len(r.Missing.Records) != 1 || !strings.HasPrefix(r.Missing.Records[0], "pending write ") {
		t.Errorf("%+v, %v", r, err)
	}
}

// contract 4: what a reader cannot read while the journal is open counts as missing, with one line in the log. The next start mends the
// journal, also after a kill.
func TestDamageWhileOpen(t *testing.T) {
	mem := diskWith(t, flawless(t))
	var log lines
	j := open(t, mem, func(o *journal.Options) { o.Logger = log.logger() })
	put(t, j, key("before"), "before")
	damageCopies(t, mem)
	begun := log.Load()
	unknown := 0
	for range 3 {
		for i := range 40 {
			if lookup(t, j, key("copy%02d", i)).Kind == journal.Unknown {
				unknown++
			}
		}
		no(t, j.MaintainOnce())
	}
	if unknown == 0 || unknown > 3*3 {
		t.Errorf("%d copies are unknown", unknown)
	}
	if st := j.Stats(); st.DamagedFiles != 1 || log.Load() != begun+1 {
		t.Errorf("%d files are damaged, and the log has %d lines of it", st.DamagedFiles, log.Load()-begun)
	}
	put(t, j, key("after"), "after")
	killed := diskWith(t, readAll(t, mem))
	if n := holds(t, killed, "before", "after"); n == 0 || n == 40 {
		t.Errorf("%d copies are left", n)
	}
	if kept := aside(t, killed); len(kept) != 1 {
		t.Errorf("it keeps %v", kept)
	}
	no(t, j.Close())
	holds(t, mem, "before", "after")
}

// The word of damage is given up once there is none: the table was merged into others, or the disk can read it again.
func TestDamageThatIsNoMore(t *testing.T) {
	files := flawless(t)
	mem := diskWith(t, files)
	j := open(t, mem)
	name := largest(readAll(t, mem))
	sound := readAll(t, mem)[name]
	damageCopies(t, mem)
	for i := range 40 {
		lookup(t, j, key("copy%02d", i))
	}
	overwrite(t, mem, name, sound)
	no(t, j.Close())
	j = open(t, mem)
	if _, noted := readAll(t, mem)["DAMAGE"]; noted || len(aside(t, mem)) != 0 || j.Stats().DamagedFiles != 0 {
		t.Errorf("noted: %v, kept: %v", noted, aside(t, mem))
	}
	for i := range 40 {
		expect(t, j, key("copy%02d", i), journal.Settled, fmt.Sprint(i)+noise(8<<10))
	}
}

// contract 4: a merge of tables that meets damage ends the process, rather than fail for ever, and so does maintenance. The next start
// mends the journal.
func TestMergeOfADamagedTableEndsTheProcess(t *testing.T) {
	for name, meet := range map[string]func(*journal.Journal) error{
		"a merge": func(j *journal.Journal) error { return j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false) },
		"a walk":  func(j *journal.Journal) error { return j.MaintainOnce() },
	} {
		t.Run(name, func(t *testing.T) {
			mem := diskWith(t, flawless(t))
			var fatal atomic.Pointer[error]
			j, err := journal.Open(journal.WithoutPause(journal.Options{
				Dir: dir, FS: mem, HistoryBytes: 1, Fatal: func(err error) { fatal.Store(&err) },
			}))
			no(t, err)
			no(t, j.Run(t.Context()))
			damageCopies(t, mem)
			if err := meet(j); !journal.IsDamage(err) {
				t.Errorf("it says %v", err)
			}
			if err := fatal.Load(); name == "a merge" && (err == nil || !errors.Is(*err, journal.ErrCorrupt)) {
				t.Errorf("the process goes on: %v", err)
			}
			left := diskWith(t, readAll(t, mem))
			_ = j.Close()
			holds(t, left)
		})
	}
}

// contract 4: a read of a pending write or a dead letter that meets damage ends the process, and the next start is refused.
func TestDamagedWriteEndsTheProcess(t *testing.T) {
	for name, read := range map[string]func(*journal.Journal) error{
		"a pending write": func(j *journal.Journal) error { return second(j.Lookup(key("pending0"))) },
		"to send it":      func(j *journal.Journal) error { _, _, err := j.Newest(key("pending0")); return err },
		"a dead letter":   func(j *journal.Journal) error { return second(j.DeadLetters(0, 10)) },
		"one of them":     func(j *journal.Journal) error { return second(j.ReadDeadLetter(3)) },
		"what was sent":   func(j *journal.Journal) error { _, _, err := j.Left(journal.Write{ID: key("pending0")}); return err },
		"to replace it": func(j *journal.Journal) error {
			return second(j.Append(journal.NewWrite{ID: key("deleted"), Op: journal.Put, Value: "2"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			var fatal atomic.Pointer[error]
			j, err := journal.Open(journal.Options{Dir: dir, FS: fs, Fatal: func(err error) { fatal.Store(&err) }})
			no(t, err)
			no(t, j.Run(t.Context()))
			sent(t, j, put(t, j, key("pending0"), "0"))
			w := put(t, j, key("pending0"), "1")
			no(t, j.DeadLetter(put(t, j, key("dead"), "x"), journal.Failure{Status: 413, Reason: "too big"}))
			sent(t, j, put(t, j, key("deleted"), "0"))
			sent(t, j, remove(t, j, key("deleted")))
			no(t, j.Flip(journal.VersionKey(w.ID, w.Seq)))
			no(t, j.Flip(journal.DeadKey(3)))
			no(t, j.Flip("a/ns/pending0"))
			no(t, j.Flip("a/ns/deleted"))
			mustBeCorrupt(t, read(j))
			if err := fatal.Load(); err == nil || !errors.Is(*err, journal.ErrCorrupt) {
				t.Errorf("the process goes on: %v", err)
			}
			left := diskWith(t, readAll(t, fs))
			_ = j.Close()
			_, err = journal.Open(journal.Options{Dir: dir, FS: left})
			mustBeCorrupt(t, err)
		})
	}
}

// contract 2: a failed read is not a failed write. A block that the disk cannot read counts as damaged.
func TestUnreadableBlock(t *testing.T) {
	mem := diskWith(t, flawless(t))
	var lost atomic.Pointer[string]
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if name := lost.Load(); name != nil && op.Kind == errorfs.OpFileReadAt && op.Offset > 100_000 && op.Offset < 200_000 && strings.HasSuffix(op.Path, *name) {
			return syscall.EIO
		}
		return nil
	}))
	j := open(t, fs)
	put(t, j, key("late"), "late")
	name := largest(readAll(t, mem))
	lost.Store(&name)
	unknown := 0
	for i := range 40 {
		if lookup(t, j, key("copy%02d", i)).Kind == journal.Unknown {
			unknown++
		}
	}
	if unknown == 0 || unknown == 40 {
		t.Errorf("%d copies are unknown", unknown)
	}
	for i := range 5 {
		expect(t, j, key("pending%d", i), journal.Value, fmt.Sprint(i)+noise(8<<10))
	}
	expect(t, j, key("late"), journal.Value, "late")
}

// contract 3: a start that mends waits for the room that it needs, and goes on when there is some.
func TestMendingWaitsForRoom(t *testing.T) {
	for name, meets := range map[string]func(op errorfs.Op) bool{
		"by the system's figure": func(op errorfs.Op) bool {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, ".recovering/") {
				t.Errorf("it writes %s without the room", op.Path)
			}
			return false
		},
		"by what is refused": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, ".recovering")
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := diskWith(t, flawed(t, "v/ns/copy"))
			full, waits := true, 0
			d := &disk{FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if full && meets(op) {
					return syscall.ENOSPC
				}
				return nil
			}))}
			d.free.Store(1 << 30)
			if name == "by the system's figure" {
				d.free.Store(10)
			}
			j, err := journal.Open(journal.Options{Dir: dir, FS: d, AwaitRoom: func(needed int64) error {
				if needed > 0 && len(aside(t, mem)) != 0 {
					t.Error("it has mended without the room for it")
				}
				switch {
				case needed > 0 && waits < 3:
					if waits++; waits == 3 {
						full = false
						d.free.Store(1 << 40)
					} else {
						d.free.Store(10)
					}
				case needed > 0:
					t.Errorf("it waits for %d bytes", needed)
				}
				return nil
			}})
			no(t, err)
			no(t, j.Close())
			if kept := aside(t, mem); waits != 3 || len(kept) != 1 {
				t.Errorf("it has waited %d times, and keeps %v", waits, kept)
			}
			holds(t, mem)
		})
	}
}

// contract 4: a start finds the journal of another process that has just mended it, and begins no new one.
func TestStartAmidAMending(t *testing.T) {
	root := t.TempDir()
	at := filepath.Join(root, "journal")
	no(t, os.Mkdir(at, 0o700))
	for name, text := range flawed(t, "v/ns/copy") {
		no(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
	}
	var another error
	renames := 0
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpRename || op.Path != at+".recovered" {
			return nil
		}
		renames++
		j, err := journal.Open(journal.Options{Dir: at})
		if another = err; err == nil {
			another = j.Close()
		}
		return nil
	}))
	j, err := journal.Open(journal.Options{Dir: at, FS: fs})
	no(t, err)
	no(t, j.Run(t.Context()))
	for i := range 5 {
		expect(t, j, key("pending%d", i), journal.Value, fmt.Sprint(i)+noise(8<<10))
	}
	if another != nil && !errors.Is(another, journal.ErrInUse) || renames != 1 {
		t.Errorf("the other start says %v, after %d renames", another, renames)
	}
	no(t, j.Close())
}

func TestStartThatSeesASwapBegin(t *testing.T) {
	mem := diskWith(t, flawed(t, "v/ns/copy"))
	sound := flawless(t)
	no(t, mem.MkdirAll(dir+".recovered", 0o700))
	for name, text := range sound {
		no(t, diskfs.WriteFile(mem, mem.PathJoin(dir+".recovered", name), []byte(text)))
	}
	begun := false
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpMkdirAll || op.Path != dir || begun {
			return nil
		}
		begun = true
		return mem.Rename(dir, dir+".damaged-1")
	}))
	j := open(t, fs)
	if !begun {
		t.Error("it has not begun")
	}
	for i := range 5 {
		expect(t, j, key("pending%d", i), journal.Value, fmt.Sprint(i)+noise(8<<10))
	}
	check(t, j)
}

// A journal whose directory is a link, such as to another disk, is mended there.
func TestMendingBehindALink(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	at := filepath.Join(elsewhere, "j")
	no(t, os.Mkdir(at, 0o700))
	for name, text := range flawed(t, "v/ns/copy") {
		no(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
	}
	link := filepath.Join(root, "journal")
	to, err := filepath.Rel(root, at)
	no(t, err)
	no(t, os.Symlink(to, link))
	j, err := journal.Open(journal.Options{Dir: link})
	no(t, err)
	kept, err := j.Aside()
	no(t, errors.Join(err, j.Close()))
	if len(kept) != 1 || filepath.Dir(kept[0]) != elsewhere {
		t.Errorf("it keeps %v", kept)
	}
	if names, err := vfs.Default.List(root); err != nil || len(names) != 1 {
		t.Errorf("beside the link are %v, %v", names, err)
	}
	if got, err := os.Readlink(link); got != to || err != nil {
		t.Errorf("the link leads to %q, %v", got, err)
	}
}

// contract 4: a start mends a journal without what was sent: it is unknown then, and nobody is refused.
func TestMendingWithoutWhatWasSent(t *testing.T) {
	fs := vfs.NewMem()
	j, err := journal.Open(journal.Options{Dir: dir, FS: fs, Fatal: func(error) {}})
	no(t, err)
	no(t, j.Run(t.Context()))
	sent(t, j, put(t, j, key("a"), "0"))
	w := put(t, j, key("a"), "1")
	no(t, j.Flip("a/ns/a"))
	mustBeCorrupt(t, func() error { _, _, err := j.Left(w); return err }())
	_ = j.Close()
	j = open(t, fs)
	expect(t, j, key("a"), journal.Value, "1")
	if _, known, err := j.Left(w); known || err != nil {
		t.Errorf("what was sent is known: %v, %v", known, err)
	}
	if kept := aside(t, fs); len(kept) != 1 {
		t.Errorf("it keeps %v", kept)
	}
}

// An examination says what the next start will do, and leaves all as it is.
func TestExamineSaysWhatTheNextStartDoes(t *testing.T) {
	for of, mends := range map[string]bool{"v/ns/copy": true, "v/ns/pending": false} {
		root := t.TempDir()
		at := filepath.Join(root, "journal")
		no(t, os.Mkdir(at, 0o700))
		files := flawed(t, of)
		logs := logNames(files)
		for _, log := range logs[:len(logs)-1] { // of which all is in the table
			delete(files, log)
		}
		for name, text := range files {
			no(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
		}
		_, err := journal.Examine(at)
		if errors.Is(err, journal.ErrMendable) != mends || !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("%s: it says %v", of, err)
		}
		names, listErr := vfs.Default.List(root)
		if listErr != nil || !slices.Equal(names, []string{"journal"}) {
			t.Errorf("%s: it has left %v, %v", of, names, listErr)
		}
		j, err := journal.Open(journal.Options{Dir: at})
		if (err == nil) != mends {
			t.Errorf("%s: the start says %v", of, err)
		}
		if err == nil {
			no(t, j.Close())
		}
	}
}

// contract 4: a start that would keep a third damaged directory is refused, and names the two: the disk damages each journal anew.
func TestThirdMendingNeedsAPerson(t *testing.T) {
	mem := diskWith(t, flawed(t, "v/ns/copy"))
	mended := func(t *testing.T) { t.Helper(); holds(t, mem) }
	for i := range 2 {
		t.Run("once more", mended)
		j := open(t, mem)
		for i := range 40 {
			no(t, second(j.Fill(key("copy%02d", i), observed(fmt.Sprint(i)+noise(8<<10)), always)))
		}
		no(t, j.FlushTables())
		no(t, j.Close())
		name := tableWith(t, mem, "v/ns/copy")
		overwrite(t, mem, name, flip(t, readAll(t, mem)[name], "v/ns/copy"))
		no(t, diskfs.WriteFile(mem, mem.PathJoin(dir, "DAMAGE"), nil)) // a reader has met it
		if kept := aside(t, mem); len(kept) != i+1 {
			t.Fatalf("it keeps %v", kept)
		}
	}
	kept := aside(t, mem)
	_, err := journal.Open(journal.Options{Dir: dir, FS: mem})
	mustBeCorrupt(t, err)
	for _, part := range append(kept, "botwired recover") {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("%v lacks %q", err, part)
		}
	}
	no(t, mem.RemoveAll(kept[0]))
	t.Run("with room for it", mended)
}

// tableWith names the largest table with such records.
func tableWith(t *testing.T, mem vfs.FS, of string) (name string) {
	t.Helper()
	files := readAll(t, mem)
	maps.DeleteFunc(files, func(_, text string) bool { return !strings.Contains(text, of) })
	return largest(files)
}

// If a start that mends is cut off anywhere, the next one has all acknowledged writes.
func TestMendingCutOff(t *testing.T) {
	mem := vfs.NewCrashableMem()
	no(t, (&victim{files: flawed(t, "v/ns/copy")}).write(mem, damage{}))
	mem = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	use := func(fs vfs.FS) {
		j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
		no(t, err)
		no(t, j.Run(t.Context()))
		put(t, j, key("late"), "late")
		no(t, j.Close())
	}
	atChanges(t, mem, sampledMoments, use, func(i int, fs *vfs.MemFS) {
		if n := holds(t, fs); n == 0 || n == 40 {
			t.Errorf("moment %d: %d copies are left", i, n)
		}
		if kept := aside(t, fs); len(kept) < 1 || len(kept) > 2 { // the disk may show both names of a directory that is being renamed
			t.Errorf("moment %d: it keeps %v", i, kept)
		}
	})
}

// If a mended journal lacks some rows of a listing, or a copy, it has no listing: that would deny the entries.
func TestMendedListingIsWhole(t *testing.T) {
	mem := vfs.NewMem()
	j := open(t, mem)
	var listing []journal.Row
	long := noise(20_200)
	for i := range 20_000 { // more than one table
		listing = append(listing, journal.Row{Key: fmt.Sprintf("%05d%x", i*7919%65536, long[i:i+120]), ListBytes: 1, UpdatedAt: 20})
	}
	no(t, j.BeginListing("ns").Commit(listing, true))
	no(t, j.FlushTables())
	name := tableFrom(t, j, "l/")
	overwrite(t, mem, name, flip(t, readAll(t, mem)[name], "")) // any of its blocks
	if _, ok, err := j.Listing("ns", allRows); ok || err != nil {
		t.Fatalf("the damaged listing is answered: %v", err)
	}
	no(t, j.Close())
	j = open(t, mem)
	if l, ok, err := j.Listing("ns", allRows); ok || err != nil {
		t.Errorf("a listing of %d rows is answered, %v", len(l.Rows), err)
	}
	no(t, j.BeginListing("ns").Commit(rows("a"), true))
	if l, ok, err := j.Listing("ns", allRows); !ok || err != nil || len(l.Rows) != 1 {
		t.Errorf("the next listing has %d rows, %v, %v", len(l.Rows), ok, err)
	}
}

// A table may have only versions. A mended journal has no copies whose values it had: no reader takes them for damaged ones. It
// brings back no older copy, and keeps the others.
func TestMendingOfVersionsAlone(t *testing.T) {
	mem := vfs.NewMem()
	j := open(t, mem)
	for i := range 250 {
		no(t, second(j.Fill(key("copy%d", i), observed("older"+noise(5<<10)), always)))
	}
	no(t, j.FlushTables())
	manyCopies(t, j, 0)
	no(t, j.FlushTables())
	lower := tableFrom(t, j, "v/")
	files := readAll(t, mem)
	overwrite(t, mem, lower, flip(t, files[lower], "v/ns/copy"))
	for i := 0; j.Stats().DamagedFiles == 0; i++ {
		lookup(t, j, key("copy%d", i))
	}
	no(t, j.Close())
	j = open(t, mem)
	check(t, j)
	kept := 0
	for i := range 250 {
		switch state := lookup(t, j, key("copy%d", i)); {
		case state.Kind == journal.Settled && strings.HasPrefix(state.Value, fmt.Sprint(i)):
			kept++
		case state.Kind != journal.Unknown:
			t.Errorf("copy %d is %d %.20q", i, state.Kind, state.Value)
		}
	}
	if n := j.Stats().DamagedFiles; n != 0 || kept == 0 || kept == 250 {
		t.Errorf("%d files are damaged after the mending, and %d copies are kept", n, kept)
	}
	if j.History.Since() == 0 {
		t.Error("the history lacks versions, and does not say so")
	}
}

// contract 4: a walk over the versions does not come past the damaged block of an older one, but a newer pending write above it can be read
// by its name.
func TestMendingKeepsWritesAboveTheDamage(t *testing.T) {
	mem := diskWith(t, flawless(t))
	j := open(t, mem)
	for i := range 40 {
		put(t, j, key("copy%02d", i), fmt.Sprint("newer ", i))
	}
	j.MarkNow()
	damageCopies(t, mem)
	j = open(t, diskWith(t, readAll(t, mem)))
	for i := range 40 {
		expect(t, j, key("copy%02d", i), journal.Value, fmt.Sprint("newer ", i))
	}
	check(t, j)
}

// contract 7: where changes are missing, no copy is known to be the newest. A log that is missing between others may have had nothing that
// is counted.
func TestMendingWithoutALogKeepsNoCopies(t *testing.T) {
	mem := vfs.NewMem()
	held, hold := holdingTables()
	j := open(t, errorfs.Wrap(mem, held))
	put(t, j, key("pending"), "1")
	no(t, second(j.Fill(key("copy"), observed("older"), always)))
	held.On()
	no(t, j.RotateLog())
	no(t, second(j.Fill(key("copy"), observed("newer"), always)))
	no(t, j.RotateLog())
	no(t, second(j.Fill(key("other"), observed("other"), always)))
	j.MarkNow()
	files := readAll(t, mem)
	close(hold)
	logs := logNames(files)
	delete(files, logs[len(logs)-2])
	left := diskWith(t, files)
	j = open(t, left)
	expect(t, j, key("pending"), journal.Value, "1")
	expect(t, j, key("copy"), journal.Unknown, "")
	if kept := aside(t, left); len(kept) != 1 {
		t.Errorf("it keeps %v", kept)
	}
}

// contract 2: a start whose disk fails is not tried again, although Pebble panics then, as it does over damage.
func TestAPanicOverAFailingDiskIsNoDamage(t *testing.T) {
	if !alone(t, fatalStatus) { // Pebble leaves a goroutine behind
		return
	}
	mem := vfs.NewMem()
	j := open(t, mem)
	put(t, j, key("a"), "1")
	no(t, j.Close())
	met := 0
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".dbtmp") {
			if met++; met == 1 {
				panic("element has outstanding references")
			}
		}
		return nil
	}))
	_, err := journal.Open(journal.Options{Dir: dir, FS: fs})
	if met != 1 || err == nil || errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), "its files are whole: check the disk: ") {
		t.Fatalf("after %d attempts: %v", met, err)
	}
	expect(t, open(t, mem), key("a"), journal.Value, "1")
	os.Exit(fatalStatus)
}
