package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

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

// holds checks that the directory starts with all acknowledged writes, and returns its number of
// copies.
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
		if left := leftOf(t, j, key("pending%d", i)); len(left) != 1 {
			t.Errorf("%v is left of %d", left, i)
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

// contract 4: damaged copies in a table that also has pending writes do not stop the start. The start
// replaces the table and keeps the writes.
func TestDamagedCopiesBesideWrites(t *testing.T) {
	mem := diskWith(t, flawed(t, "v/ns/copy"))
	if n := holds(t, mem); n != 0 {
		t.Errorf("%d copies are left", n)
	}
	if r, err := recoverAll(mem); !errors.Is(err, journal.ErrInUse) {
		t.Errorf("%+v, %v", r, err)
	}
}

// contract 4: a damaged pending write stops the start. A recovery keeps the others.
func TestDamagedWriteStopsTheStart(t *testing.T) {
	mem := diskWith(t, flawed(t, "v/ns/pending"))
	j, err := journal.Open(journal.Options{Dir: dir, FS: mem})
	no(t, err)
	err = j.Run(t.Context())
	no(t, j.Close())
	mustBeCorrupt(t, err)
	r, err := recoverAll(mem)
	if err != nil || r.Healthy || r.Complete() || r.Salvaged.Pending != 4 || r.Missing.Pending != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A reader meets damage that occurs while the journal is open, and a repair fixes it. Earlier and later
// writes survive, even if the process is killed.
func TestDamageWhileOpen(t *testing.T) {
	mem := diskWith(t, flawless(t))
	j := open(t, mem)
	put(t, j, key("before"), "before")
	damageCopies(t, mem)
	unknown := 0
	for i := range 40 {
		if lookup(t, j, key("copy%02d", i)).Kind == journal.Unknown {
			unknown++
		}
	}
	if unknown == 0 || unknown > 3 {
		t.Errorf("%d copies are unknown", unknown)
	}
	if st := j.Stats(); st.DamagedTables != 1 || st.DamagedCopies != int64(unknown) {
		t.Errorf("stats are %+v", st)
	}
	put(t, j, key("between"), "between")
	no(t, j.MaintainOnce())
	put(t, j, key("after"), "after")
	expect(t, j, key("copy00"), journal.Unknown, "")
	killed := diskWith(t, readAll(t, mem))
	if n := holds(t, killed, "before", "between", "after"); n != 0 {
		t.Errorf("%d copies are left", n)
	}
}

// During a repair under load, all callers get correct answers before, during and after.
func TestRepairUnderLoad(t *testing.T) {
	mem := diskWith(t, flawless(t))
	j := open(t, mem)
	damageCopies(t, mem)
	together(6, func(g int) {
		for i := range 150 {
			// In a separate namespace, because a complete listing drops all copies of its namespace if
			// some are damaged.
			switch id := (journal.ID{Namespace: "other", Key: fmt.Sprint("load", g)}); g {
			case 0:
				for j.Stats().DamagedTables == 0 {
					runtime.Gosched() // until a reader has met the damage
				}
				no(t, j.MaintainOnce())
			case 1:
				for k := range 40 {
					fillUnknown(t, j, k)
				}
			case 2:
				if l, ok, err := j.Listing("ns", allRows); err != nil || ok && l.Complete && len(l.Rows) < 40 {
					t.Errorf("a listing of %d rows, %v", len(l.Rows), err)
				}
				no(t, j.BeginListing("ns").Commit(upstreamRows(), true))
			default:
				value := fmt.Sprint(i)
				no(t, putting(j, id, value)())
				expect(t, j, id, journal.Value, value)
				settle(t, j, id)
				state := lookup(t, j, id)
				if state.Kind != journal.Unknown && state.Value != value { // the repair may have given the copy up
					t.Errorf("%s is %+v, want %q", id, state, value)
				}
			}
		}
	})
	if st := j.Stats(); st.DamagedTables != 1 {
		t.Errorf("%d damaged tables were met", st.DamagedTables)
	}
	check(t, j)
	no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false))
	for i := range 5 {
		expect(t, j, key("pending%d", i), journal.Value, fmt.Sprint(i)+noise(8<<10))
	}
}

// noises is computed once, because fillUnknown needs it thousands of times.
var noises = noise(8 << 10)

// fillUnknown reads a copy, and fills in upstream's if there is none.
func fillUnknown(t *testing.T, j *journal.Journal, i int) {
	t.Helper()
	id, value := key("copy%02d", i), fmt.Sprint(i)+noises
	switch state := lookup(t, j, id); {
	case state.Kind == journal.Unknown:
		no(t, second(j.Fill(id, observed(value), always)))
	case state.Kind != journal.Settled || state.Value != value:
		t.Errorf("copy %d is of kind %d", i, state.Kind)
	}
}

// upstreamRows returns all rows that upstream holds.
func upstreamRows() []journal.Row {
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprintf("copy%02d", i))
	}
	return rows(keys...)
}

// contract 2: a failed read is not a failed write. A block that the disk cannot read counts as damaged.
func TestUnreadableBlock(t *testing.T) {
	mem := diskWith(t, flawless(t))
	var lost atomic.Pointer[string]
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if name := lost.Load(); name != nil && op.Kind == errorfs.OpFileReadAt && op.Offset > 100_000 && strings.HasSuffix(op.Path, *name) {
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
	_ = j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false) // the journal goes on, even if this fails
	no(t, j.MaintainOnce())
	no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false))
	for i := range 5 {
		expect(t, j, key("pending%d", i), journal.Value, fmt.Sprint(i)+noise(8<<10))
	}
	expect(t, j, key("late"), journal.Value, "late")
	check(t, j)
}

// A repair that finds no room for its table waits for room, and does not try all the time. The journal goes on, takes
// writes for which there is room, and leaves nothing of the table.
func TestRepairWithoutRoom(t *testing.T) {
	for name, kind := range map[string]errorfs.OpKind{"creating": errorfs.OpCreate, "writing": errorfs.OpFileWrite, "syncing": errorfs.OpFileSync} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := diskWith(t, flawless(t))
				var full atomic.Bool
				var refusals atomic.Int64
				d := &disk{FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if full.Load() && op.Kind == kind && strings.HasSuffix(op.Path, "repair.new") {
						refusals.Add(1)
						return syscall.ENOSPC
					}
					return nil
				}))}
				d.free.Store(1 << 30)
				j := open(t, d, func(o *journal.Options) { o.DiskReserve = reserve })
				damageCopies(t, mem)
				for i := range 40 {
					lookup(t, j, key("copy%02d", i))
				}
				full.Store(true)
				maintain(t, j, 10*time.Second)
				if n := refusals.Load(); n != 1 {
					t.Errorf("the repair was tried %d times in ten seconds", n)
				}
				if _, left := readAll(t, mem)["repair.new"]; left {
					t.Error("a part of the table is left")
				}
				expect(t, j, key("pending0"), journal.Value, "0"+noise(8<<10))
				put(t, j, key("new"), "1")
				full.Store(false)
				maintain(t, j, time.Minute)
				expect(t, j, key("copy00"), journal.Unknown, "")
				no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false))
				check(t, j)
			})
		})
	}
}

// A repair that was cut off leaves its table beside the journal's own. The next start removes it, and the
// values in it: a purge would not look there.
func TestStartRemovesTheTableOfARepairCutOff(t *testing.T) {
	mem := diskWith(t, flawless(t))
	overwrite(t, mem, "repair.new", "a secret")
	open(t, mem)
	if _, left := readAll(t, mem)["repair.new"]; left {
		t.Error("the table is left")
	}
}

// If a repair is cut off anywhere, the journal starts with all acknowledged writes.
func TestRepairCutOff(t *testing.T) {
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
		if n := holds(t, fs); n != 0 {
			t.Errorf("moment %d: %d copies are left", i, n)
		}
	})
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

// If a repair drops some rows of a listing, it drops the whole listing. Otherwise the listing would
// deny the other rows' entries.
func TestRepairedListingIsWhole(t *testing.T) {
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
	no(t, j.MaintainOnce())
	if l, ok, err := j.Listing("ns", allRows); ok || err != nil {
		t.Errorf("a listing of %d rows is answered, %v", len(l.Rows), err)
	}
	no(t, j.BeginListing("ns").Commit(rows("a"), true))
	if l, ok, err := j.Listing("ns", allRows); !ok || err != nil || len(l.Rows) != 1 {
		t.Errorf("the next listing has %d rows, %v, %v", len(l.Rows), ok, err)
	}
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

// If a repair needs only a part of a table, Pebble cuts it, and treats a block that it cannot read as
// empty. So the repair reads such a table first: its pending writes survive even if it is damaged too.
func TestRepairReadsWhatItCuts(t *testing.T) {
	mem := vfs.NewMem()
	j := open(t, mem)
	manyCopies(t, j, 0)
	no(t, j.FlushTables())
	for i := range 5 {
		put(t, j, key("pending%d", i), fmt.Sprint(i)+noise(8<<10))
	}
	for i := 0; i < 250; i += 3 {
		no(t, second(j.Fill(key("copy%d", i), observed("newer"+noise(5<<10)), always)))
	}
	no(t, j.FlushTables())
	upper, lower := tableFrom(t, j, "l/"), tableFrom(t, j, "v/")
	files := readAll(t, mem)
	damaged := []byte(files[upper])
	for _, h := range layoutOf(t, mem, upper)["data"] {
		text := files[upper][h.Offset : h.Offset+h.Length]
		if strings.Contains(text, "v/ns/copy") && !strings.Contains(text, "pending") {
			damaged[h.Offset+h.Length/2] ^= 1
		}
	}
	overwrite(t, mem, upper, string(damaged))
	overwrite(t, mem, lower, flip(t, files[lower], "v/ns/copy"))
	for i := 55; i < 100; i++ {
		// Copies that the upper table lacks. Its filter may still let Pebble search for one of them, so
		// the first damaged one is enough.
		if i%3 != 0 && j.Stats().DamagedTables == 0 {
			lookup(t, j, key("copy%d", i))
		}
	}
	if st := j.Stats(); st.DamagedTables != 1 {
		t.Fatalf("%d damaged tables are known", st.DamagedTables)
	}
	no(t, j.MaintainOnce())
	for i := range 5 {
		expect(t, j, key("pending%d", i), journal.Value, fmt.Sprint(i)+noise(8<<10))
	}
	check(t, j)
	no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false))
}

// A table may have only versions. If it is replaced, the copies whose values it had are gone, too: no
// reader takes them for damaged ones.
func TestRepairOfVersionsAlone(t *testing.T) {
	mem := vfs.NewMem()
	j := open(t, mem)
	manyCopies(t, j, 0)
	no(t, j.FlushTables())
	lower := tableFrom(t, j, "v/")
	files := readAll(t, mem)
	overwrite(t, mem, lower, flip(t, files[lower], "v/ns/copy"))
	for i := 0; j.Stats().DamagedTables == 0; i++ {
		lookup(t, j, key("copy%d", i))
	}
	no(t, j.MaintainOnce())
	check(t, j)
	before := j.Stats().DamagedCopies
	kept := 0
	for i := range 250 {
		if lookup(t, j, key("copy%d", i)).Kind == journal.Settled {
			kept++
		}
	}
	if n := j.Stats().DamagedCopies - before; n != 0 || kept == 0 {
		t.Errorf("%d copies count as damaged after the repair, %d are kept", n, kept)
	}
}

// A write that was superseded before a repair, and settles after it, writes its version again.
func TestWriteSettlesAfterTheRepairOfItsTable(t *testing.T) {
	mem := diskWith(t, flawless(t))
	j := reopen(t, mem)
	id := key("pending0")
	sent, _, err := j.Newest(id)
	no(t, err)
	put(t, j, id, "newer")
	damageCopies(t, mem)
	no(t, j.Run(t.Context()))
	no(t, j.Settle(sent))
	check(t, j)
}
