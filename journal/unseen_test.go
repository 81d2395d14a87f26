package journal_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// flushes is a disk on which tables are written when the test says so: those of logs
// one at a time, others not at all.
type flushes struct {
	vfs.FS
	on      atomic.Bool
	waiting chan struct{} // has one when a log's table is about to be written
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

// learn takes a copy of an entry into the log. Copies are counted nowhere.
func (h *heldTables) learn(name, value string) {
	h.t.Helper()
	no(h.t, second(h.j.Fill(key("%s", name), observed(value), always)))
}

func (h *heldTables) rotate() {
	h.t.Helper()
	no(h.t, h.j.RotateLog())
}

// newest is the last name that begins and ends so, and its text.
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

// reads opens what is left of the files and expects the copy to be there.
func reads(t *testing.T, files map[string]string, value string) {
	t.Helper()
	mem := vfs.NewMem()
	no(t, (&victim{files: files}).write(mem, damage{}))
	expect(t, open(t, mem), key("k"), journal.Settled, value)
}

// refuses opens the files with one damaged: no check but the one that is asked for sees
// that a newer copy is missing, and a reader would be given an older one (contract 7).
func refuses(t *testing.T, files map[string]string, d damage, what string) {
	t.Helper()
	mem := vfs.NewMem()
	no(t, (&victim{files: files}).write(mem, d))
	j, err := journal.Open(journal.Options{Dir: dir, FS: mem})
	if err == nil {
		no(t, j.Run(t.Context()))
		t.Errorf("it starts, and %s holds %q", key("k"), lookup(t, j, key("k")).Value)
		no(t, j.Close())
		return
	}
	mustBeCorrupt(t, err)
	if !strings.Contains(err.Error(), what) {
		t.Errorf("error is %v", err)
	}
}

// contract 4: an older log that ends too early is noticed though the newer one, and all
// that is counted, is whole.
func TestGapBetweenLogsIsNoticed(t *testing.T) {
	h := holdTables(t)
	h.learn("k", "old")
	log, whole := newest(t, readAll(t, h.FS), "", ".log")
	h.learn("k", "new")
	h.rotate()
	h.learn("other", "1")
	h.j.MarkNow()
	files := readAll(t, h.FS)
	reads(t, files, "new")
	refuses(t, files, damage{file: log, text: files[log][:len(whole)]}, "records are missing before log")
}

// contract 4: a manifest that ends too early is noticed though the logs have no gap: as
// the one before its last table was entered late, it covers records of the next log too.
func TestManifestCutShortIsNoticed(t *testing.T) {
	h := holdTables(t)
	h.learn("k", "old")
	h.rotate()
	<-h.waiting // the first log's table
	log, _ := newest(t, readAll(t, h.FS), "", ".log")
	h.learn("k", "new")
	h.rotate()
	h.allow <- struct{}{}
	<-h.waiting // the second log's table; the first's is entered
	manifest, before := newest(t, readAll(t, h.FS), "MANIFEST-", "")
	h.learn("other", "0")
	h.rotate()
	h.allow <- struct{}{}
	<-h.waiting // the third log's table; the second's is entered
	for i := range 20 {
		h.learn("other", fmt.Sprint("1 ", i))
		h.rotate() // which takes the file of an old log
	}
	h.j.MarkNow()
	files := readAll(t, h.FS)
	if _, ok := files[log]; ok || len(files[manifest]) <= len(before) {
		t.Fatalf("%s is there, or nothing was entered in %s after its first %d bytes", log, manifest, len(before))
	}
	reads(t, files, "new")
	refuses(t, files, damage{file: manifest, text: before}, "manifest")
}

// contract 1: a mark that was made while a write waited for its sync is not ahead of
// what a power cut leaves, which would then pass for damage.
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
