package journal_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

var recoveredAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const copyDir = dir + ".damaged-20260102T030405Z"

func recoverAll(fs vfs.FS) (*journal.Recovery, error) {
	return journal.Recover(journal.RecoverOptions{Dir: dir, FS: fs, Now: recoveredAt})
}

// held returns the pending writes and the dead letters of a journal.
func held(t testing.TB, j *journal.Journal) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, p := range j.PendingList("", 100) {
		w, ok, err := j.Newest(p.ID)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		all[fmt.Sprint(w.Seq, " ", w.ID, " ", w.Op)] = w.Value
	}
	letters, err := j.DeadLetters(0, 1000)
	no(t, err)
	for _, l := range letters {
		all[fmt.Sprint("dead ", l.Seq, " ", l.ID)] = l.Error
	}
	return all
}

// contract 4: after damage to any one file, a recovery of a journal that does not start keeps only
// correct records, reports the missing ones, and copies the original directory.
func TestEveryDamageIsRecoveredFrom(t *testing.T) {
	seen := make(map[string]int) // for all directories, because the effect of damage depends on Pebble's timing
	for _, v := range victims(t) {
		t.Run(v.name, func(t *testing.T) {
			whole := v.onDisk(t, damage{})
			want := held(t, open(t, whole))
			rng := rand.New(rand.NewPCG(5, 6))
			all := v.damages(rng)
			rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
			if !*everyDamage {
				all = all[:400/fewer]
			}
			var mu sync.Mutex
			outcomes := make(map[string]int)
			together(8, func(g int) {
				for i := g; i < len(all); i += 8 {
					outcome := v.recoverFrom(t, all[i], want)
					mu.Lock()
					outcomes[outcome]++
					mu.Unlock()
				}
			})
			t.Log(outcomes)
			for outcome, n := range outcomes {
				seen[outcome] += n
			}
		})
	}
	if seen["complete"] == 0 || seen["missing some"] == 0 || seen["sound"] == 0 {
		t.Errorf("not all kinds of outcome were seen: %v", seen)
	}
}

func (v *victim) recoverFrom(t *testing.T, d damage, want map[string]string) string {
	name := fmt.Sprintf("%s %s to %d bytes", d.file, d.what, len(d.text))
	mem := v.onDisk(t, d)
	before := readAll(t, mem)
	r, err := recoverAll(mem)
	if err != nil {
		if errors.Is(err, journal.ErrFormat) && d.file == "FORMAT" {
			return "newer format"
		}
		t.Errorf("%s: %v", name, err)
		return "failed"
	}
	if r.Healthy {
		if diff := cmp.Diff(before, readAll(t, mem)); diff != "" {
			t.Errorf("%s: a sound journal was changed", name)
		}
		return "sound"
	}
	if diff := cmp.Diff(before, filesIn(t, mem, r.Copy)); diff != "" {
		t.Errorf("%s: the copy differs: %s", name, diff)
	}
	return v.examineRecovered(t, name, mem, r, want)
}

func (v *victim) examineRecovered(t *testing.T, name string, mem vfs.FS, r *journal.Recovery, want map[string]string) string {
	j, err := journal.Open(journal.Options{Dir: dir, FS: mem})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return "failed"
	}
	defer func() { no(t, j.Close()) }()
	no(t, j.Run(t.Context()))
	check(t, j)
	got := held(t, j)
	for _, p := range j.PendingList("ns", 1000) {
		if _, known, err := j.Left(journal.Write{ID: p.ID}); err != nil || known {
			t.Errorf("%s: what was sent of %s is known, %v", name, p.ID, err)
		}
	}
	if ago, ok, err := j.LastSending(); err != nil || !ok || ago != 0 {
		t.Errorf("%s: something was sent %s ago: %v, %v", name, ago, ok, err)
	}
	if st := j.Stats(); st.LastSeq+1 != r.NextSeq || st.LastSeq < 22 {
		t.Errorf("%s: %+v", name, st)
	}
	var receipts strings.Builder
	no(t, dumpReceipts(&receipts, j))
	for line := range strings.Lines(receipts.String()) {
		if !strings.Contains(v.want, line) {
			t.Errorf("%s: a wrong %s", name, line)
		}
	}
	if r.Complete() {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: said to be complete: %s", name, diff)
		}
		return "complete"
	}
	if !r.Missing.Differs && len(r.Missing.Files) == 0 && r.Missing.Changes == 0 && r.Missing.Pending == 0 && r.Missing.LastSeq == 0 && r.Missing.DeadLetters == 0 {
		t.Errorf("%s: missing %+v", name, r.Missing)
	}
	for key, value := range got {
		if w, ok := want[key]; ok && w != value {
			t.Errorf("%s: %s is %q, want %q", name, key, value, w)
		}
	}
	return "missing some"
}

func filesIn(t testing.TB, fs vfs.FS, at string) map[string]string {
	t.Helper()
	moved := vfs.NewMem()
	no(t, moved.MkdirAll(moved.PathDir(dir), 0o700))
	_, err := vfs.Clone(fs, moved, at, dir)
	no(t, err)
	return readAll(t, moved)
}

// cutVictim returns a directory whose log has lost its end.
func cutVictim(t *testing.T) (*victim, damage) {
	t.Helper()
	v := victims(t)[1]
	last := ""
	for name := range v.files {
		if strings.HasSuffix(name, ".log") {
			last = max(last, name)
		}
	}
	return v, damage{file: last, text: v.files[last][:100]}
}

// If a recovery is cut off anywhere, the journal never passes for a new one, and the next recovery
// gives the same result.
func TestRecoveryCutOff(t *testing.T) {
	v, d := cutVictim(t)
	synced := func() *vfs.MemFS {
		fs := vfs.NewCrashableMem()
		no(t, v.write(fs, d))
		return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	}
	use := func(fs vfs.FS) {
		r, err := recoverAll(fs)
		if err != nil || r.Complete() {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	first := synced()
	before := readAll(t, first)
	use(first)
	want := held(t, open(t, first))
	refusals := 0
	atChanges(t, synced(), sampledMoments, use, func(i int, fs *vfs.MemFS) {
		if j, err := journal.Open(journal.Options{Dir: dir, FS: fs}); err == nil {
			no(t, j.Run(t.Context()))
			if diff := cmp.Diff(want, held(t, j)); diff != "" {
				t.Errorf("moment %d, opened: %s", i, diff)
			}
			no(t, j.Close())
		} else {
			refusals++
			mustBeCorrupt(t, err)
		}
		r, err := recoverAll(fs)
		if err != nil {
			t.Errorf("moment %d: %v", i, err)
			return
		}
		if _, err := fs.Stat(copyDir); err == nil && !maps.Equal(before, filesIn(t, fs, copyDir)) {
			t.Errorf("moment %d: the copy is not whole", i)
		}
		if _, err := fs.Stat(copyDir + ".json"); r.Healthy && err != nil {
			t.Errorf("moment %d: the report is lost: %v", i, err)
		}
		if diff := cmp.Diff(want, held(t, open(t, fs))); diff != "" {
			t.Errorf("moment %d: %s", i, diff)
		}
	})
	if refusals == 0 {
		t.Error("it always started")
	}
}

// A recovery that finds no room says so, and leaves nothing behind: the next attempt has the same room.
func TestRecoveryWithoutRoom(t *testing.T) {
	v, d := cutVictim(t)
	for name, meets := range map[string]func(op errorfs.Op) bool{
		"for the copy": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && (strings.Contains(op.Path, ".damaged-") || strings.Contains(op.Path, ".copying"))
		},
		"for the journal": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, ".recovering") && strings.HasSuffix(op.Path, ".log")
		},
		"for the report": func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".json") },
	} {
		t.Run(name, func(t *testing.T) {
			mem := v.onDisk(t, d)
			before := readAll(t, mem)
			_, err := recoverAll(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if meets(op) {
					return syscall.ENOSPC
				}
				return nil
			})))
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("it says %v", err)
			}
			names, err := mem.List(mem.PathDir(dir))
			if no(t, err); !slices.Equal(names, []string{mem.PathBase(dir)}) || !maps.Equal(before, readAll(t, mem)) {
				t.Errorf("it leaves %v", names)
			}
			r, err := recoverAll(mem)
			if err != nil || r.Copy != copyDir {
				t.Errorf("the next attempt: %+v, %v", r, err)
			}
		})
	}
	if _, err := recoverAll(fullDisk{v.onDisk(t, d)}); !errors.Is(err, syscall.ENOSPC) { // Pebble would wait for room without end
		t.Errorf("on a disk without room, it says %v", err)
	}
}

// fullDisk says that it has no room.
type fullDisk struct{ vfs.FS }

func (fullDisk) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{}, nil }

func TestRecoveryNeverOverwritesACopy(t *testing.T) {
	v, d := cutVictim(t)
	mem := v.onDisk(t, d)
	_, err := recoverAll(mem)
	no(t, err)
	first := filesIn(t, mem, copyDir)
	no(t, mem.Remove(mem.PathJoin(dir, "MARK")))
	r, err := recoverAll(mem)
	if err != nil || r.Copy != copyDir+"-2" {
		t.Fatalf("%+v, %v", r, err)
	}
	if !maps.Equal(first, filesIn(t, mem, copyDir)) {
		t.Error("the first copy was changed")
	}
}

func TestRecoverRefuses(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	put(t, j, key("a"), "1")
	if _, err := recoverAll(fs); !errors.Is(err, journal.ErrInUse) {
		t.Errorf("in use: %v", err)
	}
	files := map[string]string{"FORMAT": "botwired journal 7\n", "000002.log": "x"}
	other := diskWith(t, files)
	if _, err := recoverAll(other); !errors.Is(err, journal.ErrFormat) {
		t.Errorf("newer: %v", err)
	}
	if got := readAll(t, other); !maps.Equal(got, files) {
		t.Errorf("newer: changed to %v", got)
	}
	files = map[string]string{"MANIFEST-000001": "x", "000002.log": "y"}
	foreign := diskWith(t, files)
	if _, err := recoverAll(foreign); err == nil {
		t.Error("another's store was replaced")
	}
	if got := readAll(t, foreign); !maps.Equal(got, files) {
		t.Errorf("another's: changed to %v", got)
	}
}

// Copies that were dropped do not come back, and a recovery does not take their absence for damage.
func TestRecoveryLeavesWhatWasGivenUp(t *testing.T) {
	for name, flush := range map[string]func(j *journal.Journal) error{
		"in a log":  func(*journal.Journal) error { return nil },
		"in tables": (*journal.Journal).FlushTables,
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs)
			for _, id := range []journal.ID{key("a"), key("z")} {
				put(t, j, id, "1")
				settle(t, j, id)
			}
			no(t, flush(j))
			no(t, j.DropCopies())
			put(t, j, key("b"), "2")
			settle(t, j, key("b"))
			no(t, flush(j))
			crashed := fs.CrashClone(vfs.CrashCloneCfg{})
			names, err := crashed.List(dir)
			no(t, err)
			for _, name := range names {
				if strings.HasPrefix(name, "MANIFEST") {
					no(t, crashed.Remove(crashed.PathJoin(dir, name))) // so that Pebble shows none of it
				}
			}
			report, err := recoverAll(crashed)
			no(t, err)
			if len(report.Missing.Records) > 0 || !report.Missing.CopiesCut {
				t.Errorf("the recovery says %+v", report)
			}
			recovered := open(t, crashed)
			expect(t, recovered, key("a"), journal.Unknown, "")
			expect(t, recovered, key("z"), journal.Unknown, "")
			expect(t, recovered, key("b"), journal.Unknown, "")
		})
	}
}

// contract 4: the report names no record that is sound, and not what each journal has of its own.
func TestRecoveryNamesOnlyDamagedRecords(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	put(t, j, key("a"), "1")
	no(t, j.BeginSending())
	no(t, j.Close())
	for name := range readAll(t, fs) {
		if strings.HasPrefix(name, "MANIFEST") {
			no(t, fs.Remove(fs.PathJoin(dir, name)))
		}
	}
	r, err := recoverAll(fs)
	if no(t, err); r.Healthy || r.Salvaged.Pending != 1 || len(r.Missing.Records) != 0 {
		t.Errorf("%+v", r)
	}
	if held := held(t, open(t, fs)); len(held) != 1 {
		t.Errorf("it holds %v", held)
	}
}
