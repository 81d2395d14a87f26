package journal_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/journal/internal/store"
)

// worn is a directory whose tables will be damaged, and what a journal reports about it.
type worn struct {
	victim
	states  map[journal.ID]journal.State
	letters []journal.DeadLetter
	listing []journal.Row
}

// contract 4: after damage to a block of a table, a journal that starts serves readers and writers,
// merges its tables and starts again; or it ends when it meets the damage, and the next start mends it. It gives its former
// answers, and does not know a damaged copy, which a healthy upstream then replaces. If a journal does not start, a recovery
// repairs it, and reports the damage.
func TestDamagedTablesInUse(t *testing.T) {
	seen := make(map[string]int)
	directories, ran := wornDirectories(t), 0
	for _, w := range directories {
		t.Run(w.name, func(t *testing.T) {
			ran++
			if got := w.live(badBit{}); got != "right" {
				t.Fatalf("undamaged: %s", got)
			}
			all := w.blocks(t)
			h := fnv.New64()
			_, _ = h.Write([]byte(w.name))
			rand.New(rand.NewPCG(h.Sum64(), 1)).Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
			if !*everyDamage {
				data := 0
				all = slices.DeleteFunc(all, func(f badBit) bool {
					if f.what == "data" {
						data++
					}
					return f.what == "data" && data > 16
				})
			}
			all = all[:(len(all)+fewer-1)/fewer]
			for i := range all {
				all[i].turn = i
			}
			var mu sync.Mutex
			outcomes := make(map[string]int)
			together(4, func(g int) {
				for i := g; i < len(all); i += 4 {
					got := w.live(all[i])
					if strings.Contains(got, ": ") {
						t.Errorf("%s %s: %s", all[i].file, all[i].what, got)
						got = "wrong"
					}
					mu.Lock()
					outcomes[all[i].what+": "+got]++
					seen[got]++
					mu.Unlock()
				}
			})
			for _, line := range slices.Sorted(maps.Keys(outcomes)) {
				t.Logf("%4d  %s", outcomes[line], line)
			}
		})
	}
	if all := ran == len(directories) && fewer == 1; all && (seen["right"] == 0 || seen["asked anew"] == 0 || seen["ended and mended"] == 0 || seen["recovered"] == 0) {
		t.Errorf("not all kinds of outcome were seen: %v", seen)
	}
}

// wornDirectories returns directories of killed processes: one that has just begun, one with some of
// everything in one table, and one with tables of only copies.
func wornDirectories(t *testing.T) []*worn {
	t.Helper()
	var all []*worn
	for name, use := range map[string]func(*journal.Journal){
		"young": func(j *journal.Journal) {
			for i := range 20 {
				put(t, j, key("pending%d", i), fmt.Sprint("value ", i))
			}
		},
		"mixed": func(j *journal.Journal) {
			fill(t, j)
			no(t, j.FlushTables())
			put(t, j, key("pending1"), "newer")
		},
		"many copies": func(j *journal.Journal) {
			fill(t, j)
			manyCopies(t, j, 0)
			no(t, j.FlushTables())
			no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false))
			manyCopies(t, j, 250)
			no(t, j.FlushTables())
			put(t, j, key("pending1"), "newer")
		},
	} {
		mem := vfs.NewMem()
		j := open(t, mem)
		use(j)
		j.MarkNow()
		w := &worn{victim: victim{name: name, files: readAll(t, mem)}, states: make(map[journal.ID]journal.State)}
		for i := range 500 {
			for _, kind := range []string{"pending", "settled", "dead", "copy", "filled"} {
				if state := lookup(t, j, key("%s%d", kind, i)); i < 20 || keptKind(state) != journal.Unknown {
					w.states[key("%s%d", kind, i)] = state
				}
			}
		}
		var err error
		w.letters, err = j.DeadLetters(0, 1000)
		no(t, err)
		l, _, err := j.Listing("ns", allRows)
		no(t, err)
		w.listing = l.Rows
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *worn) int { return strings.Compare(a.name, b.name) })
	return all
}

// manyCopies keeps copies of many entries, and a listing of them.
func manyCopies(t *testing.T, j *journal.Journal, from int) {
	t.Helper()
	var listing []journal.Row
	for i := range 500 {
		id := key("copy%d", i)
		listing = append(listing, journal.Row{Key: id.Key, ListBytes: 10 << 10, UpdatedAt: 20})
		if i >= from && i < from+250 {
			no(t, second(j.Fill(id, observed(fmt.Sprint(i)+noise(10<<10)), always)))
		}
	}
	no(t, j.BeginListing("ns").Commit(append(listing, rows("filled", "settled1", "settled2", "settled3", "settled4", "settled5", "pending7")...), false))
}

// badBit is a bit of a table to flip; the zero badBit flips nothing.
type badBit struct {
	what string // the kind of block
	file string
	at   uint64
	turn int // number among the bad bits of a directory
}

// damage returns the table with the bit flipped.
func (w *worn) damage(f badBit) damage {
	if f.file == "" {
		return damage{}
	}
	text := []byte(w.files[f.file])
	text[f.at] ^= 1
	return damage{what: f.what, file: f.file, text: string(text)}
}

// blocks returns one bad bit in each block of each table and in its footer.
func (w *worn) blocks(t *testing.T) []badBit {
	t.Helper()
	mem := w.onDisk(t, damage{})
	var all []badBit
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		for kind, handles := range layoutOf(t, mem, name) {
			for _, h := range handles {
				all = append(all, badBit{what: kind, file: name, at: h.Offset + h.Length/2})
			}
		}
		all = append(all, badBit{what: "footer", file: name, at: uint64(len(w.files[name]) - 20)})
	}
	slices.SortStableFunc(all, func(a, b badBit) int { return strings.Compare(a.what, b.what) })
	return all
}

func layoutOf(t *testing.T, mem vfs.FS, name string) map[string][]block.Handle {
	t.Helper()
	file, err := store.OpenTable(mem, mem.PathJoin(dir, name))
	no(t, err)
	r, err := sstable.NewReader(t.Context(), file, sstable.ReaderOptions{})
	no(t, err)
	defer func() { no(t, r.Close()) }()
	l, err := r.Layout()
	no(t, err)
	handles := map[string][]block.Handle{
		"index": l.Index, "properties": {l.Properties}, "metaindex": {l.MetaIndex},
	}
	for _, d := range l.Data {
		handles["data"] = append(handles["data"], d.Handle)
	}
	for _, f := range l.Filter {
		handles["filter"] = append(handles["filter"], f.Handle)
	}
	if l.RangeDel.Length > 0 {
		handles["ranges"] = []block.Handle{l.RangeDel}
	}
	if l.TopIndex.Length > 0 {
		handles["top index"] = []block.Handle{l.TopIndex}
	}
	return handles
}

// live opens the damaged directory, works on it and starts it again. It returns the outcome, which
// contains a colon if it is wrong.
func (w *worn) live(f badBit) (outcome string) {
	defer func() {
		if p := recover(); p != nil {
			outcome = fmt.Sprint("panic: ", p)
		}
	}()
	mem := vfs.NewMem()
	if err := w.write(mem, w.damage(f)); err != nil {
		return "test: " + err.Error()
	}
	u := &use{worn: w, fs: mem, listing: w.listing, killed: f.turn%2 == 0}
	refusal := u.start()
	if u.metDamage(nil) { // a merge in the background was fast
		refusal = u.restart()
		u.ends++
	}
	if refusal != "" {
		if refusal != "corrupt" {
			return "refused: " + refusal
		}
		r, err := recoverAll(mem)
		if err != nil || r.Healthy {
			return fmt.Sprintf("a journal that does not start is called sound: %v, %v", r, err)
		}
		u.lacking = !r.Complete()
		if refusal := u.start(); refusal != "" {
			return "after a recovery: " + refusal
		}
		u.recovered = true
	}
	if err := u.work(); err != nil && u.metDamage(err) {
		if refusal := u.restart(); refusal != "" {
			return "the start after the damage was met: " + refusal
		}
		u.ends++
		if err := u.work(); err != nil {
			_ = u.j.Close()
			return fmt.Sprintf("in use, mended: %v", err)
		}
	} else if err != nil {
		_ = u.j.Close()
		return fmt.Sprintf("in use: %v", err)
	}
	if err := u.again(); err != nil {
		return fmt.Sprintf("the next start: %v", err)
	}
	switch {
	case u.recovered:
		return "recovered"
	case u.ends > 0:
		return "ended and mended"
	case u.asked > 0:
		return "asked anew"
	}
	return "right"
}

// use is a journal at work on a damaged directory.
type use struct {
	*worn
	fs        *vfs.MemFS
	j         *journal.Journal
	recovered bool
	lacking   bool // the recovery has reported missing writes
	asked     int  // copies requested from upstream
	listing   []journal.Row
	killed    bool // the process ends without closing the journal

	ends int // how often the process has ended

	mu    sync.Mutex
	fatal error
}

// metDamage reports whether the process has ended, or is to end, because it has met damage.
func (u *use) metDamage(err error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return journal.IsDamage(err) || journal.IsDamage(u.fatal)
}

// restart ends the process and starts another one.
func (u *use) restart() (refusal string) {
	left, err := tryReadAll(u.fs)
	_ = u.j.Close()
	if err == nil && u.killed {
		u.fs = vfs.NewMem()
		err = (&victim{files: left}).write(u.fs, damage{})
	}
	if err != nil {
		return err.Error()
	}
	u.fatal = nil
	return u.start()
}

// start opens the journal and returns the error with which it was refused.
func (u *use) start() (refusal string) {
	var err error
	u.j, err = journal.Open(journal.WithoutPause(journal.Options{Dir: dir, FS: u.fs, CopiesBytes: 64 << 20, Fatal: func(err error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.fatal = err
	}}))
	if err == nil {
		if _, err = u.j.Holdings(); err == nil {
			err = u.j.Run(context.Background())
		}
		if err != nil {
			_ = u.j.Close()
		}
	}
	if err == nil {
		return u.ended()
	}
	if _, what, _ := strings.Cut(refused("start", err), ": "); what != "corrupt" {
		return err.Error()
	}
	return "corrupt"
}

// ended returns the reason for which the journal has ended the process.
func (u *use) ended() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fatal != nil {
		return "the process ended: " + u.fatal.Error()
	}
	return ""
}

// work reads everything, writes, merges the tables and reads everything again.
func (u *use) work() error {
	if err := u.readAll(); err != nil {
		return err
	}
	fresh, err := u.j.Append(journal.NewWrite{ID: key("fresh"), Op: journal.Put, Value: "1"})
	if err != nil {
		return err
	}
	if err := u.j.Settle(fresh); err != nil {
		return err
	}
	for range 2 {
		if err := u.j.MaintainOnce(); err != nil {
			return fmt.Errorf("maintaining: %w", err)
		}
	}
	if err := u.j.DB().Compact(context.Background(), []byte("a"), []byte("z"), false); err != nil {
		return fmt.Errorf("merging: %w", err)
	}
	if err := u.j.Evict(1 << 30); err != nil {
		return fmt.Errorf("measuring copies: %w", err)
	}
	if err := u.readAll(); err != nil {
		return fmt.Errorf("merged: %w", err)
	}
	if err := u.j.Check(); err != nil {
		return err
	}
	if ended := u.ended(); ended != "" {
		return fmt.Errorf("%s", ended)
	}
	return nil
}

func (u *use) readAll() error {
	for id, want := range u.states {
		if err := u.read(id, want); err != nil {
			return err
		}
	}
	letters, err := u.j.DeadLetters(0, 1000)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(u.letters, letters, cmp.AllowUnexported(journal.Write{})); diff != "" && !u.lacking {
		return fmt.Errorf("dead letters: %s", diff)
	}
	return u.list()
}

// read looks up an entry. If the entry is unknown, read fills in upstream's answer.
func (u *use) read(id journal.ID, want journal.State) error {
	got, err := u.j.Lookup(id)
	if err != nil {
		return err
	}
	same := keptKind(got) == keptKind(want) && got.Value == want.Value && got.Seq == want.Seq
	switch {
	case same, u.lacking && want.Kind != journal.Settled:
		return nil
	case want.Kind != journal.Settled || got.Kind != journal.Unknown: // an absence would deny it
		return fmt.Errorf("%s is %d %.20q, want %d %.20q", id, got.Kind, got.Value, want.Kind, want.Value)
	}
	u.asked++
	if _, err := u.j.Fill(id, observed(want.Value), always); err != nil {
		return err
	}
	if got, err = u.j.Lookup(id); err != nil || got.Kind != journal.Settled || got.Value != want.Value {
		return fmt.Errorf("filled, %s is %d %.20q, %w", id, got.Kind, got.Value, err)
	}
	return nil
}

// keptKind returns a state's kind as far as records show it: an entry without records is absent only as
// long as the listing exists.
func keptKind(s journal.State) journal.Kind {
	if s.Kind == journal.Absent {
		return journal.Unknown
	}
	return s.Kind
}

// list reads the listing, and takes a new one from upstream.
func (u *use) list() error {
	l, ok, err := u.j.Listing("ns", allRows)
	if err != nil {
		return err
	}
	got := slices.DeleteFunc(slices.Clone(l.Rows), func(r journal.Row) bool { return r.Key == "fresh" })
	if ok && l.Complete && !slices.EqualFunc(got, u.listing, func(a, b journal.Row) bool { return a.Key == b.Key }) {
		return fmt.Errorf("the listing has %d rows, want %d", len(got), len(u.listing))
	}
	held := rows("fresh")
	for id, state := range u.states {
		if state.Kind == journal.Settled {
			held = append(held, journal.Row{Key: id.Key, ListBytes: state.ListBytes, UpdatedAt: state.UpdatedAt})
		}
	}
	u.listing = slices.SortedFunc(slices.Values(held[1:]), func(a, b journal.Row) int { return strings.Compare(a.Key, b.Key) })
	return u.j.BeginListing("ns").Commit(held, true)
}

// again ends the process and starts another one: the damage must be gone.
func (u *use) again() error {
	if _, err := u.j.Append(journal.NewWrite{ID: key("late"), Op: journal.Put, Value: "late"}); err != nil {
		return err
	}
	left, err := tryReadAll(u.fs)
	if err != nil {
		return err
	}
	if err := u.j.Close(); err != nil {
		return err
	}
	if u.killed {
		u.fs = vfs.NewMem()
		if err := (&victim{files: left}).write(u.fs, damage{}); err != nil {
			return err
		}
	}
	r, err := recoverAll(u.fs)
	if err != nil || !r.Healthy {
		return fmt.Errorf("a recovery says %+v, %w", r, err)
	}
	if refusal := u.start(); refusal != "" {
		return fmt.Errorf("%s", refusal)
	}
	asked := u.asked
	if err := u.readAll(); err != nil {
		return err
	}
	if u.asked != asked {
		return fmt.Errorf("%d copies were lost again", u.asked-asked)
	}
	if late, err := u.j.Lookup(key("late")); err != nil || late.Value != "late" {
		return fmt.Errorf("the last write is %+v, %w", late, err)
	}
	return u.j.Close()
}
