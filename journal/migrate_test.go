package journal_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// ofOlderFormat returns a file system with the golden directory of the older format, and its contents.
func ofOlderFormat(t *testing.T) (mem *vfs.MemFS, want string) {
	t.Helper()
	text, err := os.ReadFile(goldenDir(oldestFormat) + ".txt")
	no(t, err)
	return goldenCopy(t, filepath.Base(goldenDir(oldestFormat))), string(text)
}

// goldenCopy returns a file system with a directory of testdata.
func goldenCopy(t *testing.T, name string) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	no(t, mem.MkdirAll(mem.PathDir(dir), 0o700))
	_, err := vfs.Clone(vfs.Default, mem, filepath.Join("testdata", name), dir, vfs.CloneSync)
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

// contract 21: after a migration that is cut off anywhere, the directory starts with all its contents,
// and in the end no checkpoint is left.
func TestMigrationCutOff(t *testing.T) {
	mem, want := ofOlderFormat(t)
	migrate := func(fs vfs.FS) {
		j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
		no(t, err)
		no(t, j.Close())
	}
	atChanges(t, mem, sampledMoments, migrate, func(i int, fs *vfs.MemFS) {
		j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
		if err != nil {
			t.Errorf("moment %d: %v", i, err)
			return
		}
		no(t, j.Run(t.Context()))
		check(t, j)
		if diff := cmp.Diff(want, dump(t, j)); diff != "" {
			t.Errorf("moment %d: %s", i, diff)
		}
		no(t, j.Close())
		if names, err := fs.List(fs.PathDir(dir)); err != nil || len(names) != 1 {
			t.Errorf("moment %d: %v, %v", i, names, err)
		}
	})
}

// contract 3: on a full disk, a migration waits for the room that the values of pending writes take.
func TestMigrationWaitsForRoom(t *testing.T) {
	mem, want := ofOlderFormat(t)
	d := &disk{FS: mem}
	d.free.Store(1<<20 + 100)
	var asked []int64
	j := open(t, d, func(o *journal.Options) {
		o.AwaitRoom = func(needed int64) error {
			if asked = append(asked, needed); needed > 0 {
				if got := readAll(t, mem)["FORMAT"]; got != "botwired journal 5\n" {
					t.Errorf("the format is %q already", got)
				}
				d.free.Store(1 << 30)
			}
			return nil
		}
	})
	if diff := cmp.Diff(want, dump(t, j)); diff != "" || len(asked) < 2 || asked[0] < 1<<20+1000 {
		t.Errorf("%d were asked for: %s", asked, diff)
	}
}

// Format 5 left records of superseded writes behind, which later batches removed. Their values stay, but
// none of them comes back, wherever the migration is cut off.
func TestMigrationRemovesSupersededRecords(t *testing.T) {
	mem := goldenCopy(t, "superseded-5")
	migrate := func(fs vfs.FS) { no(t, open(t, fs).Close()) }
	atChanges(t, mem, sampledMoments, migrate, func(_ int, fs *vfs.MemFS) {
		j := open(t, fs)
		for i := range 3 {
			id := key("%d", i)
			expect(t, j, id, journal.Value, fmt.Sprint("new ", i))
			versions(t, j, id, uint64(2*i+2), uint64(2*i+3))
			settle(t, j, id)
		}
		check(t, j)
		no(t, j.Close())
		j = open(t, fs)
		for i := range 3 {
			expect(t, j, key("%d", i), journal.Settled, fmt.Sprint("new ", i))
		}
	})
}

// contract 21: from before the format changes until the migrated store is in use, a complete copy of
// the old store exists, and would survive a power cut.
func TestMigrationKeepsACheckpoint(t *testing.T) {
	mem, want := ofOlderFormat(t)
	migrate := func(fs vfs.FS) {
		j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
		no(t, err)
		no(t, j.Close())
	}
	changing := 0
	atChanges(t, mem, 1, migrate, func(i int, fs *vfs.MemFS) {
		if _, err := fs.Stat(fs.PathJoin(dir, "FORMAT.new")); err != nil {
			return
		}
		changing++
		kept := vfs.NewMem()
		no(t, kept.MkdirAll(kept.PathDir(dir), 0o700))
		if ok, err := vfs.Clone(fs, kept, dir+".format-5", dir); err != nil || !ok {
			t.Errorf("moment %d: there is no checkpoint (%v)", i, err)
			return
		}
		if got := readAll(t, kept)["FORMAT"]; got != "botwired journal 5\n" {
			t.Errorf("moment %d: the checkpoint's format is %q", i, got)
		}
		if diff := cmp.Diff(want, dump(t, open(t, kept))); diff != "" {
			t.Errorf("moment %d: %s", i, diff)
		}
	})
	if changing == 0 {
		t.Error("the format never changed")
	}
}

// A store that fails its checks is not migrated: the directory keeps its format.
func TestDamagedDirectoryIsNotMigrated(t *testing.T) {
	mem, _ := ofOlderFormat(t)
	files := readAll(t, mem)
	v := &victim{files: files}
	for name, text := range files {
		if name[len(name)-4:] != ".sst" {
			continue
		}
		fs := vfs.NewMem()
		no(t, v.write(fs, damage{file: name, text: text[:30] + "damaged" + text[37:]}))
		_, err := journal.Open(journal.Options{Dir: dir, FS: fs})
		mustBeCorrupt(t, err)
		if got := readAll(t, fs)["FORMAT"]; got != "botwired journal 5\n" {
			t.Errorf("format is %q", got)
		}
	}
}

// A store that is behind the mark of an older format is not migrated.
func TestStoreBehindItsMarkIsNotMigrated(t *testing.T) {
	mem, _ := ofOlderFormat(t)
	files := readAll(t, mem)
	mark := []byte(files["MARK"])
	binary.LittleEndian.PutUint64(mark, 1000)      // a newer round
	binary.LittleEndian.PutUint64(mark[8:], 1<<32) // the sequence number
	sum := crc32.Checksum(append([]byte("MARK"), mark[:5*8+4]...), crc32.MakeTable(crc32.Castagnoli))
	binary.LittleEndian.PutUint32(mark[5*8+4:], sum)
	files["MARK"] = string(mark)
	fs := diskWith(t, files)
	_, err := journal.Open(journal.Options{Dir: dir, FS: fs})
	mustBeCorrupt(t, err)
	if got := readAll(t, fs)["FORMAT"]; got != "botwired journal 5\n" {
		t.Errorf("format is %q", got)
	}
}
