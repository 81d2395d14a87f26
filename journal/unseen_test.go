package journal_test

import (
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// flushes is a disk on which the test controls when tables are written: tables of logs one at a time,
// other tables never.
type flushes struct {
	vfs.FS
	on      atomic.Bool
	waiting chan struct{} // gets a value when a log's table is about to be written
	allow   chan struct{}
	end     chan struct{}
}

func (f *flushes) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.on.Load() && strings.HasSuffix(name, ".sst") {
		var allow chan struct{}
		if category == "pebble-memtable-flush" {
			allow = f.allow
			f.waiting <- struct{}{}
		}
		select {
		case <-allow:
		case <-f.end:
		}
	}
	return f.FS.Create(name, category)
}

// heldTables is a journal on such a disk.
type heldTables struct {
	*flushes
	t *testing.T
	j *journal.Journal
}

func holdTables(t *testing.T) *heldTables {
	t.Helper()
	disk := &flushes{
		FS: vfs.NewMem(), waiting: make(chan struct{}, 100), allow: make(chan struct{}), end: make(chan struct{}),
	}
	h := &heldTables{flushes: disk, t: t, j: open(t, disk)}
	disk.on.Store(true)
	t.Cleanup(func() { close(disk.end) })
	return h
}

// learn writes a copy of an entry to the log. The state record does not count copies.
func (h *heldTables) learn(name, value string) {
	h.t.Helper()
	no(h.t, second(h.j.Fill(key("%s", name), observed(value), always)))
}

// enter writes the waiting table, and returns when the manifest names it.
func (h *heldTables) enter() {
	h.t.Helper()
	name, before := newest(h.t, readAll(h.t, h.FS), "MANIFEST-", "")
	h.allow <- struct{}{}
	for now := before; now == before; {
		runtime.Gosched()
		now = readAll(h.t, h.FS)[name]
	}
}

func (h *heldTables) rotate() {
	h.t.Helper()
	no(h.t, h.j.RotateLog())
}

// newest returns the last file name with this prefix and suffix, and the file's text.
func newest(t *testing.T, files map[string]string, prefix, suffix string) (name, text string) {
	t.Helper()
	for n := range files {
		if strings.HasPrefix(n, prefix) && strings.HasSuffix(n, suffix) {
			name = max(name, n)
		}
	}
	if name == "" {
		t.Fatalf("no %s*%s", prefix, suffix)
	}
	return name, files[name]
}

// reads opens the remaining files and expects the copy to be there.
func reads(t *testing.T, files map[string]string, value string) {
	t.Helper()
	mem := diskWith(t, files)
	expect(t, open(t, mem), key("k"), journal.Settled, value)
}

// refuses opens the files with one damaged. Only the wanted check sees that a newer copy is missing;
// without it, a reader would get an older one (contract 7). The start is refused, or mends the journal without the copy.
func refuses(t *testing.T, files map[string]string, d damage, what string) {
	t.Helper()
	mem := (&victim{files: files}).onDisk(t, d)
	j, err := journal.Open(journal.Options{Dir: dir, FS: mem})
	if err == nil {
		no(t, j.Run(t.Context()))
		expect(t, j, key("k"), journal.Unknown, "")
		no(t, j.Close())
		kept := aside(t, mem)
		if len(kept) != 1 {
			t.Fatalf("it keeps %v", kept)
		}
		f, err := mem.Open(kept[0] + ".json")
		no(t, err)
		text, err := io.ReadAll(f)
		no(t, errors.Join(err, f.Close()))
		if !strings.Contains(string(text), what) {
			t.Errorf("the report is %s", text)
		}
		return
	}
	mustBeCorrupt(t, err)
	if !strings.Contains(err.Error(), what) {
		t.Errorf("error is %v", err)
	}
}

// threeLogs returns a journal with three logs, none of them in tables: an older copy of k in the first,
// the newer one in the second, and nothing of k in the third.
func threeLogs(t *testing.T) (files map[string]string, logs []string) {
	t.Helper()
	h := holdTables(t)
	h.learn("other", "1")
	h.learn("k", "old")
	h.rotate()
	h.learn("other", "2")
	h.learn("k", "new")
	h.rotate()
	h.learn("other", "3")
	h.j.MarkNow()
	files = readAll(t, h.FS)
	reads(t, files, "new")
	return files, logsOf(t, files, 3)
}

// logsOf returns the last n logs.
func logsOf(t *testing.T, files map[string]string, n int) []string {
	t.Helper()
	var logs []string
	for name := range files {
		if kindOf(name) == ".log" {
			logs = append(logs, name)
		}
	}
	slices.Sort(logs)
	if len(logs) < n {
		t.Fatalf("the logs are %v", logs)
	}
	return logs[len(logs)-n:]
}

// contract 4: an older log that ends too early is noticed even if the newer log and all counted records
// are intact. Only the log's own trailer shows it: the missing record may be the last before the
// manifest's number.
func TestCutLogIsNoticed(t *testing.T) {
	files, logs := threeLogs(t)
	at := boundaries(logs[1], files[logs[1]])
	lastRecord := at[len(at)-2]
	cut := damage{file: logs[1], text: files[logs[1]][:lastRecord]}
	refuses(t, files, cut, logs[1]+" ends too early")
	cut.text = files[logs[1]][:at[len(at)-1]] // without its trailer
	refuses(t, files, cut, logs[1]+" ends too early")
}

// contract 4: Pebble takes a chunk for the end of the log if a damaged byte changes the chunk's log
// number to the next number.
func TestFlippedLogNumberIsNoticed(t *testing.T) {
	files, logs := threeLogs(t)
	b := []byte(files[logs[1]])
	b[boundaries(logs[1], files[logs[1]])[0]+logNumberAt]++
	refuses(t, files, damage{file: logs[1], text: string(b)}, logs[1]+" ends too early")
}

// contract 4: a missing log between two others is noticed.
func TestGapBetweenLogsIsNoticed(t *testing.T) {
	files, logs := threeLogs(t)
	refuses(t, files, damage{file: logs[1], gone: true}, "records are missing in or before log "+logs[2])
}

// contract 4: a missing first log that is not in tables is noticed, even if the manifest was last
// written when that log had ended, and says so about its records.
func TestMissingFirstLogIsNoticed(t *testing.T) {
	h := holdTables(t)
	h.learn("k", "old")
	h.rotate()
	<-h.waiting
	h.learn("k", "new")
	h.rotate()
	h.allow <- struct{}{}
	<-h.waiting // the second log's table; the first one's is entered
	h.learn("other", "1")
	h.j.MarkNow()
	files := readAll(t, h.FS)
	reads(t, files, "new")
	log := logsOf(t, files, 2)[0]
	refuses(t, files, damage{file: log, gone: true}, "log "+strings.TrimSuffix(log, ".log")+" is missing")
}

// contract 4: a start writes the logs into tables, and enters these in a new manifest. If the previous
// manifest is put back, only the mark shows it: that manifest was last written when the log had ended
// whose table is now missing.
func TestOlderManifestIsNoticed(t *testing.T) {
	h := holdTables(t)
	h.learn("k", "old")
	h.rotate()
	<-h.waiting
	h.learn("k", "new")
	before, _ := newest(t, readAll(t, h.FS), "MANIFEST-", "")
	h.enter()
	mem := vfs.NewMem()
	killed := readAll(t, h.FS)
	no(t, (&victim{files: killed}).write(mem, damage{}))
	j := open(t, mem)
	no(t, second(j.Fill(key("other"), observed("1"), always)))
	j.MarkNow()
	files := readAll(t, mem)
	reads(t, files, "new")
	now, _ := newest(t, files, "MANIFEST-", "")
	if now == before {
		t.Fatal("the start has made no manifest")
	}
	refuses(t, files, damage{file: now, text: killed[before]}, "manifest")
}

// contract 4: a missing end of the last log is noticed even if it contains no write.
func TestLostChangesAreNoticed(t *testing.T) {
	h := holdTables(t)
	put(t, h.j, key("pending"), "1")
	h.learn("k", "old")
	log := logsOf(t, readAll(t, h.FS), 1)[0]
	before := readAll(t, h.FS)[log]
	no(t, h.j.BeginListing("ns").Commit(rows("k"), true))
	h.j.MarkNow()
	files := readAll(t, h.FS)
	reads(t, files, "old")
	refuses(t, files, damage{file: log, text: before}, "changes are missing")
}

// contract 4: if Pebble cannot read anything of the last log, it assumes that a kill cut it off, and
// removes it with all the writes after the damage.
func TestDamagedLogIsNotRemoved(t *testing.T) {
	mem := vfs.NewMem()
	j := open(t, mem)
	for i := range 3 {
		put(t, j, key("%d", i), "1")
	}
	j.MarkNow()
	files := readAll(t, mem)
	log := logsOf(t, files, 1)[0]
	v := &victim{files: files}
	var left *vfs.MemFS
	for text, want := range map[string]string{
		strings.Repeat("\x00", len(files[log])):      "it can be read up to write 0, and write 3 was acknowledged",
		strings.Repeat("\x00", 30) + files[log][30:]: "acknowledged writes come behind it",
	} {
		d := damage{file: log, text: text}
		refuses(t, files, d, want)
		disk := v.onDisk(t, d)
		if _, err := journal.Open(journal.Options{Dir: dir, FS: disk}); err == nil {
			t.Fatal("it starts")
		}
		if removed := v.removedFrom(disk, d); removed != "" {
			t.Errorf("%s is not what it was", removed)
		}
		if strings.Trim(text, "\x00") != "" {
			left = disk
		}
	}
	r, err := recoverAll(left)
	no(t, err)
	if r.Salvaged.Pending != 2 || r.Missing.Pending != 1 {
		t.Errorf("the recovery says %+v", r)
	}
}

// contract 1: a mark made while a write waits for its sync is not ahead of what a power cut leaves.
// Otherwise the remains would count as damaged.
func TestMarkWaitsForWhatItMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, release := vfs.NewCrashableMem(), make(chan struct{})
		hold := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
			if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && strings.HasSuffix(op.Path, ".log") {
				<-release
			}
			return nil
		})}
		j := open(t, errorfs.Wrap(mem, hold))
		put(t, j, key("a"), "1")
		hold.On()
		var callers sync.WaitGroup
		callers.Go(func() { _, _ = j.Append(journal.NewWrite{ID: key("b"), Op: journal.Put, Value: "2"}) })
		synctest.Wait()
		callers.Go(j.MarkNow)
		synctest.Wait()
		left := crash(mem)
		close(release)
		callers.Wait()
		expect(t, open(t, left), key("a"), journal.Value, "1")
	})
}
