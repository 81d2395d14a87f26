package journal_test

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

var (
	damagesTried = flag.Int("damages", 1000, "how many damages TestDamageTable tries")
	damagesSeed  = flag.Uint64("damages.seed", 1, "which journals and damages these are")
)

const (
	// moments is how many journals TestDamageTable damages: each as a kill leaves it.
	moments = 50
	sector  = 512
)

// moment is a journal as a kill leaves it, and what it held after each batch.
type moment struct {
	victim
	mark    store.Mark
	batches uint64
	held    map[uint64]uint64 // by the number of batches: a hash of all records but the state record
}

// contract 4: no damage is served as if there were none. It hits nothing in use, or a start finds it, or the
// read that meets it does, or it costs only what is younger than the mark. The table says what finds it first:
// Pebble, opened for reading alone, the mark, and the count and sum of what has to be there find nearly all.
// The rest is why a start looks into the logs and the manifest itself: a log that is missing between others,
// or the end of a manifest, may have held nothing that is counted.
func TestDamageTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(*damagesSeed, 46))
	journals := momentsOf(t, rng)
	type row struct{ kind, what, found string }
	table := make(map[row]int)
	each := max(1, *damagesTried/fewer/len(journals))
	results := make(chan row)
	work := make(chan func() row)
	go func() {
		defer close(work)
		for _, m := range journals {
			if got := m.examine(damage{}); got != same {
				t.Errorf("%s, undamaged: %s", m.name, got)
			}
			for range each {
				d := m.damage(rng)
				work <- func() row {
					got := m.examine(d)
					if strings.HasPrefix(got, silent) {
						t.Errorf("%s, %s %s, now %d of %d bytes: %s", m.name, d.file, d.what, len(d.text), len(m.files[d.file]), got)
						got = silent
					}
					return row{kindOf(d.file), d.what, got}
				}
			}
		}
	}()
	go func() {
		together(runtime.GOMAXPROCS(0), func(int) {
			for try := range work {
				results <- try()
			}
		})
		close(results)
	}()
	t.Logf("-damages=%d -damages.seed=%d", *damagesTried, *damagesSeed)
	found := make(map[string]int)
	for r := range results {
		table[r]++
		found[r.found]++
	}
	for _, r := range slices.SortedFunc(maps.Keys(table), func(a, b row) int {
		return strings.Compare(a.kind+a.what+a.found, b.kind+b.what+b.found)
	}) {
		t.Logf("%6d  %-9s %-8s %s", table[r], r.kind, r.what, r.found)
	}
	for _, how := range []string{same, byPebble, byMark, bySum, byRead} {
		if found[how] == 0 && fewer == 1 {
			t.Errorf("no damage was %s: %v", how, found)
		}
	}
}

// The ways in which a damage may end.
const (
	same     = "nothing in use"
	byFormat = "found by the file FORMAT"
	byPebble = "found by Pebble at the opening"
	byMark   = "found by the mark"
	bySum    = "found by the count and the sum"
	byCheck  = "found in the logs or the manifest"
	byRead   = "found when it is read"
	younger  = "lost only what is younger than the mark"
	silent   = "SILENT"
)

// examine opens the damaged journal as carefully as a start has to, reads all of it, and says how the
// damage was found.
func (m *moment) examine(d damage) (how string) {
	defer func() {
		if p := recover(); p != nil {
			how = fmt.Sprint(silent, ": a panic: ", p)
		}
	}()
	mem := vfs.NewMem()
	if err := m.write(mem, d); err != nil {
		return silent + ": test: " + err.Error()
	}
	if _, err := store.CheckFormat(mem, dir); err != nil {
		return byFormat
	}
	mark, err := store.ReadMark(mem, dir)
	if err != nil {
		return byMark
	}
	db, err := store.OpenPebble(store.Options{Dir: dir, FS: mem, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return byPebble
	}
	defer func() { _ = db.Close() }()
	switch how, err := careful(db, &mark); {
	case err != nil:
		return how
	case how != "":
		return how
	}
	t, hash, err := recordsOf(db)
	switch {
	case err != nil && store.IsDamage(err):
		return byRead
	case err != nil:
		return fmt.Sprint(silent, ": ", err)
	case hash == m.held[m.batches] && t.Batches == m.batches:
		return same
	}
	// Only the end of the last log may be missing.
	if want, known := m.held[t.Batches]; known && hash == want && t.Batches >= m.mark.Batches {
		return younger
	}
	if _, err := store.Check(store.Options{Dir: dir, FS: mem, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return byCheck
	}
	return fmt.Sprintf("%s: %d of %d batches are there, or other records than after that batch; the mark is at %d",
		silent, t.Batches, m.batches, m.mark.Batches)
}

// careful checks what has to be there: the mark, and the count and sum of the pending writes and the
// dead letters, with the versions that hold the writes' values.
func careful(db *pebble.DB, mark *store.Mark) (how string, _ error) {
	totals, err := store.ReadTotals(db)
	if err != nil {
		return bySum, err
	}
	if err := mark.Reached(totals); err != nil {
		return byMark, err
	}
	versions, err := store.NewVersions(db)
	if err != nil {
		return bySum, err
	}
	defer func() { _ = versions.Close() }()
	found, err := store.Count(db, func(id record.ID, v record.Pending) error {
		_, err := versions.Find(id, v.Seq)
		return err
	})
	if err == nil {
		err = totals.Compare(found)
	}
	if err != nil {
		return bySum, err
	}
	return "", nil
}

// recordsOf returns a hash of all records but the state record, and the state record.
func recordsOf(db pebble.Reader) (t record.Totals, sum uint64, _ error) {
	h := fnv.New64a()
	err := store.Scan(db, []byte{0}, []byte{0xff}, func(key, body []byte, _ uint32) error {
		if string(key) == string(record.StateKey) {
			return nil
		}
		_, err := fmt.Fprintf(h, "%d %s %d %s\n", len(key), key, len(body), body)
		return err
	})
	if err == nil {
		t, err = store.ReadTotals(db)
	}
	return t, h.Sum64(), err
}

// momentsOf lives through a journal's life: writes, copies, listings, letters, tables, new logs, marks,
// ends and kills. It returns what a kill would leave at some moments.
func momentsOf(t *testing.T, rng *rand.Rand) []*moment {
	t.Helper()
	var all []*moment
	l := &life{t: t, rng: rng, mem: vfs.NewCrashableMem(), held: make(map[uint64]uint64)}
	l.begin()
	for len(all) < max(1, moments/fewer) {
		for range 20 + rng.IntN(60) {
			l.step()
			l.note()
		}
		all = append(all, l.moment(len(all)))
		switch rng.IntN(4) {
		case 0:
			l.end()
			l.begin()
		case 1: // a kill
			next := l.killed()
			l.end()
			l.mem = next
			l.begin()
		}
	}
	l.end()
	return all
}

// life is a journal at work.
type life struct {
	t    *testing.T
	rng  *rand.Rand
	mem  *vfs.MemFS
	j    *journal.Journal
	held map[uint64]uint64 // see moment

	// In some lives, no table is written: the logs add up.
	tables  chan struct{} // closed when tables may be written
	logs    int           // begun since the life has
	waiting bool
}

func (l *life) begin() {
	l.t.Helper()
	tables := make(chan struct{})
	held := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-tables
		}
		return nil
	})}
	l.tables, l.logs, l.waiting = tables, 0, l.rng.IntN(2) == 0
	var err error
	l.j, err = journal.Open(journal.WithoutPause(journal.Options{
		Dir: dir, FS: errorfs.Wrap(l.mem, held), Fatal: func(err error) { l.t.Errorf("Fatal was called: %v", err) },
	}))
	no(l.t, err)
	no(l.t, l.j.Run(context.Background()))
	if l.waiting {
		held.On()
	}
	l.note()
}

func (l *life) end() {
	close(l.tables)
	no(l.t, l.j.Close())
}

// killed returns what a kill leaves now.
func (l *life) killed() *vfs.MemFS {
	return l.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: l.rng})
}

// note keeps what the journal holds now.
func (l *life) note() {
	l.t.Helper()
	snapshot := l.j.DB().NewSnapshot()
	totals, hash, err := recordsOf(snapshot)
	no(l.t, err)
	no(l.t, snapshot.Close())
	l.held[totals.Batches] = hash
}

func (l *life) moment(number int) *moment {
	l.t.Helper()
	left := l.killed()
	m := &moment{
		victim:  victim{name: fmt.Sprint("moment ", number), files: readAll(l.t, left)},
		batches: l.j.Batches(), held: maps.Clone(l.held),
	}
	var err error
	m.mark, err = store.ReadMark(left, dir)
	no(l.t, err)
	if l.rng.IntN(2) == 0 { // a log has its full length from the beginning on a real file system
		logs := slices.DeleteFunc(slices.Sorted(maps.Keys(m.files)), func(n string) bool { return !strings.HasSuffix(n, ".log") })
		m.files[logs[len(logs)-1]] += strings.Repeat("\x00", 40_000)
	}
	return m
}

// step does one thing that a journal does in its life.
func (l *life) step() {
	l.t.Helper()
	t, j, rng := l.t, l.j, l.rng
	id := key("k%d", rng.IntN(40))
	value := noise(rng.IntN(2000)) + fmt.Sprint(rng.Uint64())
	newest, pending, err := j.Newest(id)
	no(t, err)
	switch n := rng.IntN(100); {
	case n < 35:
		put(t, j, id, value)
	case n < 42:
		remove(t, j, id)
	case n < 65:
		if pending {
			no(t, j.Settle(newest))
		}
	case n < 68:
		if pending {
			sent(t, j, newest)
		}
	case n < 74:
		if pending {
			no(t, j.DeadLetter(newest, journal.Failure{Kind: journal.Refused, Status: 422, Reason: "no"}))
		}
	case n < 82:
		no(t, second(j.Fill(id, observed(value), always)))
	case n < 85:
		no(t, j.BeginListing("ns").Commit(rows(fmt.Sprint("k", rng.IntN(40)), "k1", "other"), rng.IntN(2) == 0))
	case n < 90:
		j.MarkNow()
	case n < 93:
		if !l.waiting {
			no(t, j.FlushTables())
		}
	case n < 97:
		if l.logs++; !l.waiting || l.logs <= 2 { // with more, writers wait for a table
			no(t, j.RotateLog())
		}
	case n < 99 && !l.waiting:
		no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false))
	case !l.waiting:
		no(t, j.Evict(1<<10))
	}
}

// damage draws one damage to one file: logs, manifests, tables, markers, options.
func (m *moment) damage(rng *rand.Rand) damage {
	byKind := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		byKind[kindOf(name)] = append(byKind[kindOf(name)], name)
	}
	// Most damages hit what holds records.
	kinds := slices.Concat(slices.Sorted(maps.Keys(byKind)), slices.Repeat([]string{".log", ".sst", "MANIFEST"}, 5))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return byKind[kind] == nil })
	of := byKind[kinds[rng.IntN(len(kinds))]]
	d := damage{file: of[rng.IntN(len(of))]}
	text := []byte(m.files[d.file])
	at := 0
	if len(text) > 0 {
		at = rng.IntN(len(text))
	}
	switch n := rng.IntN(10); {
	case n == 0:
		d.what, d.gone = "missing", true
	case n == 1 && len(of) > 1:
		d.what, d.text = "swapped", m.files[of[rng.IntN(len(of))]]
	case n < 4:
		d.what, d.text = "cut", string(text[:at])
	case n < 6:
		from := at / sector * sector
		clear(text[from:min(from+sector, len(text))])
		d.what, d.text = "zeroed", string(text)
	default:
		if len(text) > 0 {
			text[at] ^= 1 << rng.IntN(8)
		}
		d.what, d.text = "flipped", string(text)
	}
	return d
}
