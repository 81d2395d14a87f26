package journal_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/journal/internal/record"
)

// canary is a value that no compression hides.
type canary string

func newCanary() canary { return canary("canary-" + crand.Text() + crand.Text()) }

// in returns the files under a directory that hold the canary.
func (c canary) in(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // Pebble has removed it meanwhile
			return nil
		}
		if bytes.Contains(content, []byte(c)) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// openOnDisk opens a journal in a directory of the real file system.
func openOnDisk(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	return open(t, vfs.Default, func(o *journal.Options) { o.Dir = filepath.Join(dir, "journal") })
}

func purge(t *testing.T, j *journal.Journal, namespace, key string) journal.Purged {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done, err := j.Purge(ctx, namespace, key, math.MaxUint64)
	if err != nil {
		t.Fatalf("Purge(%s, %s) = %+v, %v", namespace, key, done, err)
	}
	return done
}

func requestName(id journal.ID) [16]byte { return [16]byte(fmt.Appendf(nil, "%-16.16s", id)) }

// live makes an entry hold a value in every kind of record: pending, settled, shown by upstream, superseded,
// refused, as the winner of a conflict, and in the files of several logs and tables.
func live(t *testing.T, j *journal.Journal, id journal.ID, value string) {
	t.Helper()
	spread := func() {
		if err := j.FlushTables(); err != nil {
			t.Fatal(err)
		}
	}
	request := &journal.Request{Name: requestName(id), Answer: "the value's sum"}
	no(t, second(j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: value + " superseded", Request: request})))
	put(t, j, id, value+" settled")
	spread()
	settle(t, j, id)
	w := put(t, j, id, value+" refused")
	if err := j.DeadLetter(w, journal.Failure{Status: 422, Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	spread()
	w = put(t, j, id, value+" beaten")
	if err := j.Fence.Lose(w, journal.Observation{Value: value + " of another host", UpdatedAt: w.UpdatedAt + 1}, "later"); err != nil {
		t.Fatal(err)
	}
	spread()
	if _, err := j.Fill(id, &journal.Observation{Value: value + " shown", ListBytes: 5, UpdatedAt: w.UpdatedAt + 2}, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	put(t, j, id, value+" deleted later")
	settle(t, j, id)
	spread()
	remove(t, j, id)
	settle(t, j, id)
}

// A purged value is in no file of the directory, be it pending, settled or a dead letter. Nothing else
// changes: the journal is whole after a restart, and other entries keep their values and their history.
func TestPurgedValueIsInNoFile(t *testing.T) {
	for name, whole := range map[string]bool{"an entry": false, "a namespace": true} {
		t.Run(name, func(t *testing.T) {
			dir, gone, stays := t.TempDir(), newCanary(), newCanary()
			j := openOnDisk(t, dir)
			other := journal.ID{Namespace: "other", Key: "k"}
			neighbours := []journal.ID{other}
			id := key("k")
			if !whole {
				neighbours = append(neighbours, key("k.k"), key("j"), key("l"))
			}
			for _, n := range neighbours {
				live(t, j, n, string(stays))
				put(t, j, n, string(stays)+" now")
				settle(t, j, n)
			}
			live(t, j, id, string(gone))
			if found := gone.in(t, dir); len(found) < 2 {
				t.Fatalf("the value is in %d files: there is nothing to purge", len(found))
			}
			before := make(map[journal.ID]string)
			for _, n := range neighbours {
				before[n] = describe(t, j, n)
			}
			purgedKey := id.Key
			if whole {
				purgedKey = ""
			}
			if done := purge(t, j, id.Namespace, purgedKey); done.Versions < 6 || done.DeadLetters != 1 || done.Receipts < 5 || done.Pending != 0 {
				t.Errorf("Purge = %+v", done)
			}
			check := func(when string) {
				t.Helper()
				if found := gone.in(t, dir); len(found) != 0 {
					t.Errorf("%s, the value is in %q", when, found)
				}
				if found := stays.in(t, dir); len(found) == 0 {
					t.Errorf("%s, the neighbours' values are in no file", when)
				}
				if past, err := j.History.Of(id, 100); err != nil || len(past) != 0 {
					t.Errorf("%s, the entry has the history %v, %v", when, past, err)
				}
				for _, of := range append(neighbours, id) {
					if _, seq, err := j.Receipts.Request(requestName(of)); err != nil || (seq == 0) != (of == id) {
						t.Errorf("%s, the request that wrote %s has write %d, %v", when, of, seq, err)
					}
				}
				for _, n := range neighbours {
					if now := describe(t, j, n); now != before[n] {
						t.Errorf("%s, %s is\n%s\nand was\n%s", when, n, now, before[n])
					}
				}
				letters, err := j.DeadLetters(0, 100)
				if st := j.Stats(); err != nil || len(letters) != len(neighbours) || st.DeadLetters != len(neighbours) || st.Conflicts != len(neighbours) {
					t.Errorf("%s, there are %d dead letters, %d counted, %v", when, len(letters), st.DeadLetters, err)
				}
			}
			check("at once")
			receipts := j.Stats().Receipts
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = openOnDisk(t, dir)
			check("after a restart")
			if now := j.Stats().Receipts; now != receipts {
				t.Errorf("%d receipts are counted after a restart, and %d before", now, receipts)
			}
			if done := purge(t, j, id.Namespace, purgedKey); done != (journal.Purged{}) {
				t.Errorf("again: Purge = %+v", done)
			}
		})
	}
}

func describe(t *testing.T, j *journal.Journal, id journal.ID) string {
	t.Helper()
	state, err := j.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	past, err := j.History.Of(id, 100)
	if err != nil {
		t.Fatal(err)
	}
	state.ConfirmedAt = time.Time{}
	text := fmt.Sprintf("%+v", state)
	for _, p := range past {
		text += fmt.Sprintf("\n%+v", p)
	}
	return text
}

// A pending write stays, with what it is based on; older versions go all the same.
func TestPurgeLeavesPendingWrites(t *testing.T) {
	dir, gone := t.TempDir(), newCanary()
	j := openOnDisk(t, dir)
	id := key("k")
	live(t, j, id, string(gone))
	w := put(t, j, id, "new")
	for _, k := range []string{"k", ""} {
		if done := purge(t, j, "ns", k); done.Pending != 1 {
			t.Errorf("Purge(%q) = %+v", k, done)
		}
		if state, err := j.Lookup(id); err != nil || state.Kind != journal.Value || state.Value != "new" {
			t.Errorf("the pending write is %+v, %v", state, err)
		}
		if found := gone.in(t, dir); len(found) != 0 {
			t.Errorf("the older values are in %q", found)
		}
	}
	if newest, ok, err := j.Newest(id); err != nil || !ok || newest.Seq != w.Seq {
		t.Errorf("the newest write is %+v, %v, %v", newest, ok, err)
	}
	settle(t, j, id)
	if state, err := j.Lookup(id); err != nil || state.Value != "new" {
		t.Errorf("once settled: %+v, %v", state, err)
	}
}

// The name of a request stays as long as its write is pending: a repetition must not make a second one (contract 5).
func TestPurgeLeavesTheNamesOfPendingWrites(t *testing.T) {
	for _, k := range []string{"k", ""} {
		j := openOnDisk(t, t.TempDir())
		name := requestName(key("k"))
		w, err := j.Append(journal.NewWrite{ID: key("k"), Op: journal.Put, Value: "1", Request: &journal.Request{Name: name}})
		no(t, err)
		purge(t, j, "ns", k)
		if _, seq, err := j.Receipts.Request(name); err != nil || seq != w.Seq {
			t.Errorf("Purge(%q), while it is pending: the request has made write %d, %v, want %d", k, seq, err, w.Seq)
		}
		settle(t, j, key("k"))
		purge(t, j, "ns", k)
		if made, _, err := j.Receipts.Request(name); err != nil || made.Op != 0 {
			t.Errorf("Purge(%q), once it has settled: %+v, %v", k, made, err)
		}
	}
}

// The name of a request that comes while a purge runs stays, also that of a delete: a repetition must not take what has been
// written since.
func TestPurgeLeavesTheNamesOfLaterRequests(t *testing.T) {
	j := openOnDisk(t, t.TempDir())
	upTo := put(t, j, key("k"), "1").Seq
	name := requestName(key("k"))
	w, err := j.Append(journal.NewWrite{ID: key("k"), Op: journal.Delete, Request: &journal.Request{Name: name}})
	no(t, err)
	put(t, j, key("k"), "2")
	settle(t, j, key("k"))
	no(t, second(j.Purge(t.Context(), "ns", "k", upTo)))
	if _, seq, err := j.Receipts.Request(name); err != nil || seq != w.Seq {
		t.Errorf("the request has made write %d, %v, want %d", seq, err, w.Seq)
	}
}

// A purge leaves the puts with a higher number than its own, settled ones with their history, too. It removes what
// upstream has shown since, because that may be the old value.
func TestPurgeLeavesLaterWrites(t *testing.T) {
	for _, k := range []string{"k", ""} {
		dir, gone := t.TempDir(), newCanary()
		j := openOnDisk(t, dir)
		id := key("k")
		live(t, j, id, string(gone))
		upTo := j.Stats().LastSeq
		if _, err := j.Fill(id, &journal.Observation{Value: string(gone) + " again", ListBytes: 5, UpdatedAt: 9e9}, func() bool { return true }); err != nil {
			t.Fatal(err)
		}
		remove(t, j, id)
		settle(t, j, id)
		put(t, j, id, "first")
		later := put(t, j, id, "later")
		settle(t, j, id)
		if done, err := j.Purge(t.Context(), "ns", k, upTo); err != nil || done.Pending != 0 {
			t.Errorf("Purge(%q) = %+v, %v", k, done, err)
		}
		if state, err := j.Lookup(id); err != nil || state.Kind != journal.Settled || state.WrittenAs != later.Seq || state.Value != "later" {
			t.Errorf("Purge(%q): the entry is %+v, %v", k, state, err)
		}
		if past, err := j.History.Of(id, 100); err != nil || len(past) != 2 || past[1].Value != "first" {
			t.Errorf("Purge(%q): the history is %+v, %v", k, past, err)
		}
		if found := gone.in(t, dir); len(found) != 0 {
			t.Errorf("Purge(%q): the older values are in %q", k, found)
		}
	}
}

// While a reader uses files from before, they stay, and the purge waits and says which. It is not done before the value
// is gone.
func TestPurgeWaitsForReaders(t *testing.T) {
	for name, hold := range map[string]func(j *journal.Journal) (release func()){
		"a snapshot": (*journal.Journal).HoldSnapshot,
		"an iterator": func(j *journal.Journal) func() {
			it, err := j.DB().NewIter(nil)
			no(t, err)
			return func() { no(t, it.Close()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, gone := t.TempDir(), newCanary()
			j := openOnDisk(t, dir)
			manyNeighbours(t, j)
			live(t, j, key("k"), string(gone))
			release := hold(j)
			purgeInVain(t, j, "readers", func() []string {
				held := gone.in(t, dir)
				if len(held) == 0 {
					t.Fatal("the reader holds no file")
				}
				return held
			})
			ended := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				_, err := j.Purge(ctx, "ns", "k", math.MaxUint64)
				ended <- err
			}()
			select {
			case err := <-ended:
				t.Fatalf("the purge ends although a reader holds the value: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			release()
			no(t, <-ended)
			if found := gone.in(t, dir); len(found) != 0 {
				t.Errorf("the value is in %q", found)
			}
		})
	}
}

// manyNeighbours keeps Pebble from merging a table again for the few removed records in it.
func manyNeighbours(t *testing.T, j *journal.Journal) {
	for i := range 400 {
		put(t, j, key("neighbour-%d", i), "stays")
	}
}

// purgeInVain removes an entry's records, and expects that its files cannot be purged, for a reason, and that the error
// names some. On a busy machine, a purge needs more time to come to all of them.
func purgeInVain(t *testing.T, j *journal.Journal, why string, files func() []string) error {
	t.Helper()
	for within := 200 * time.Millisecond; ; within *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		done, err := j.Purge(ctx, "ns", "k", math.MaxUint64)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Purge = %+v, %v", done, err)
		}
		unnamed := slices.DeleteFunc(append(files(), why), func(part string) bool { return strings.Contains(err.Error(), part) })
		if len(unnamed) == 0 {
			return err
		}
		if within > 10*time.Second {
			t.Fatalf("Purge = %+v, %v, without %q", done, err, unnamed)
		}
	}
}

func noFiles() []string { return nil }

// A table that a merge has written with what a snapshot showed has no newer one over it. A purge merges it all the same.
func TestPurgedValueIsInNoTableThatWasMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, gone := vfs.NewMem(), newCanary()
		j := open(t, mem)
		manyNeighbours(t, j)
		live(t, j, key("k"), string(gone))
		release := j.HoldSnapshot()
		purgeInVain(t, j, "readers", noFiles)
		no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false))
		release()
		if len(gone.inMem(t, mem)) == 0 {
			t.Fatal("there is nothing to purge")
		}
		purge(t, j, "ns", "k")
		if found := gone.inMem(t, mem); len(found) != 0 {
			t.Errorf("the value is in %q", found)
		}
	})
}

// Pebble may have cut tables from a file that holds more, such as what a repair has dropped.
func TestPurgedValueIsInNoFileThatWasCut(t *testing.T) {
	mem, gone := vfs.NewMem(), newCanary()
	j := open(t, mem)
	for k, value := range map[string]string{"j": "stays", "k": string(gone), "l": "stays"} {
		put(t, j, key("%s", k), value)
		settle(t, j, key("%s", k))
		remove(t, j, key("%s", k))
		settle(t, j, key("%s", k))
	}
	no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false))
	from := record.VersionsOf(key("k"))
	no(t, j.DB().Excise(t.Context(), pebble.KeyRange{Start: from, End: record.After(from)}))
	purge(t, j, "ns", "k")
	if found := gone.inMem(t, mem); len(found) != 0 {
		t.Errorf("the value is in %q", found)
	}
}

// mergeHeld is a file system on which a merge waits before its second table, until the directory is listed.
type mergeHeld struct {
	vfs.FS
	begun, listed chan struct{}
	tables        atomic.Int32
	lists         atomic.Pointer[sync.Once]
}

func (m *mergeHeld) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == "pebble-compaction" && m.begun != nil && m.tables.Add(1) == 2 {
		close(m.begun)
		<-m.listed
	}
	return m.FS.Create(name, category)
}

func (m *mergeHeld) List(name string) ([]string, error) {
	names, err := m.FS.List(name)
	if once := m.lists.Load(); once != nil {
		once.Do(func() { close(m.listed) })
	}
	return names, err
}

// A merge that is underway when a purge begins may still write tables with what a snapshot showed.
func TestPurgedValueIsInNoTableBeingMerged(t *testing.T) {
	mem, gone := vfs.NewMem(), newCanary()
	m := &mergeHeld{FS: mem, begun: make(chan struct{}), listed: make(chan struct{})}
	j := open(t, m)
	random, fill := rand.NewChaCha8([32]byte{}), make([]byte, 1<<20)
	for i := range 8 {
		_, _ = random.Read(fill)
		put(t, j, key("%d", i), string(gone)+string(fill))
		settle(t, j, key("%d", i))
	}
	upTo := j.Stats().LastSeq
	for i := range 8 * 20 { // among these, Pebble does not merge a table again for the few removed records in it
		put(t, j, key("%d", i%8), "stays")
		settle(t, j, key("%d", i%8))
	}
	no(t, j.FlushTables())
	release := j.HoldSnapshot()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := j.Purge(ctx, "ns", "", upTo); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	merged := make(chan error, 1)
	go func() { merged <- j.DB().Compact(context.WithoutCancel(t.Context()), []byte("a"), []byte("z"), false) }()
	<-m.begun
	release()
	m.lists.Store(new(sync.Once))
	no(t, second(j.Purge(t.Context(), "ns", "", upTo)))
	no(t, <-merged)
	if found := gone.inMem(t, mem); len(found) != 0 {
		t.Errorf("the value is in %q", found)
	}
}

// On a nearly full disk, a purge says what may still hold the value. With room, it ends.
func TestPurgeOnAFullDisk(t *testing.T) {
	const reserve = 1 << 20
	for name, row := range map[string]struct {
		free int64
		held string
	}{
		"no room to merge tables": {reserve/2 - 1, ".sst"},
		"no room for new logs":    {reserve - 1, ".log"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, gone := vfs.NewMem(), newCanary()
				d := &disk{FS: mem}
				d.free.Store(10 * reserve)
				j := open(t, d, func(o *journal.Options) { o.DiskReserve = reserve })
				live(t, j, key("k"), string(gone))
				d.free.Store(row.free)
				time.Sleep(time.Second) // the free space is measured anew
				err := purgeInVain(t, j, "no room", noFiles)
				held := gone.inMem(t, mem)
				for _, file := range held {
					if strings.HasSuffix(file, row.held) && !strings.Contains(err.Error(), file) {
						t.Errorf("%v does not name %s", err, file)
					}
				}
				if len(held) == 0 || !strings.Contains(err.Error(), row.held) {
					t.Errorf("the value is in %q: %v", held, err)
				}
				d.free.Store(10 * reserve)
				purge(t, j, "ns", "k")
				if found := gone.inMem(t, mem); len(found) != 0 {
					t.Errorf("the value is in %q", found)
				}
			})
		})
	}
}

// Killed, or with the power cut, at any operation of a purge, nothing else is lost, and the next purge finishes the work.
func TestPurgeCutOffAtEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, stays := newCanary(), newCanary()
		mem := newCalmFS()
		var mu sync.Mutex // guards clones
		var clones []*vfs.MemFS
		var purges atomic.Bool
		cut := func() {
			mu.Lock()
			defer mu.Unlock()
			kept := len(clones) % 2 * 100
			clones = append(clones, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rand.New(rand.NewPCG(1, 1))}))
		}
		j := open(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if purges.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				cut()
			}
			return nil
		})))
		live(t, j, key("k"), string(gone))
		live(t, j, key("l"), string(stays))
		put(t, j, key("l"), string(stays))
		settle(t, j, key("l"))
		before := describe(t, j, key("l"))
		purges.Store(true)
		purge(t, j, "ns", "k")
		purges.Store(false)
		ended := len(clones)
		cut()
		cut()
		for i, left := range clones {
			if testing.Short() && i%7 != 0 && i < ended {
				continue
			}
			if found := gone.inMem(t, left); i >= ended && len(found) != 0 {
				t.Errorf("cut after the purge, the value is in %q", found)
			}
			j := open(t, left)
			purge(t, j, "ns", "k")
			if found := gone.inMem(t, left); len(found) != 0 {
				t.Errorf("after cut %d, the value is in %q", i, found)
			}
			if now := describe(t, j, key("l")); now != before {
				t.Errorf("after cut %d, the neighbour is\n%s\nand was\n%s", i, now, before)
			}
			no(t, j.Close())
		}
	})
}

// inMem returns the files of the journal that hold the canary.
func (c canary) inMem(t *testing.T, fsys *vfs.MemFS) (found []string) {
	t.Helper()
	names, err := fsys.List(dir)
	for _, name := range names {
		f, openErr := fsys.Open(fsys.PathJoin(dir, name))
		if errors.Is(openErr, fs.ErrNotExist) { // Pebble has removed it meanwhile
			continue
		}
		content, readErr := io.ReadAll(f)
		if err = errors.Join(err, openErr, readErr, f.Close()); bytes.Contains(content, []byte(c)) {
			found = append(found, name)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A write that comes amid a purge of its entry is kept, and so are those of other entries.
func TestWritesAmidAPurge(t *testing.T) {
	dir, gone := t.TempDir(), newCanary()
	j := openOnDisk(t, dir)
	live(t, j, key("k"), string(gone))
	stop, wrote := make(chan struct{}), make(chan journal.Write)
	go func() {
		var last journal.Write
		for i := 0; ; i++ {
			select {
			case <-stop:
				wrote <- last
				return
			default:
			}
			last = put(t, j, key("k"), fmt.Sprint("new ", i))
			if i%3 == 0 {
				settle(t, j, key("k"))
			}
			other := put(t, j, key("other%d", i%5), "o")
			if i%2 == 0 {
				_ = j.DeadLetter(other, journal.Failure{Status: 400})
			}
		}
	}()
	for _, k := range []string{"k", "", "k"} {
		purge(t, j, "ns", k)
	}
	close(stop)
	last := <-wrote
	last, _ = put(t, j, key("k"), "the last"), last
	if found := gone.in(t, dir); len(found) != 0 {
		t.Errorf("the value is in %q", found)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openOnDisk(t, dir) // Run compares the store with its totals
	if w, ok, err := j.Newest(key("k")); err != nil || !ok || w.Seq != last.Seq || w.Value != "the last" {
		t.Errorf("the newest write is %+v, %v, %v", w, ok, err)
	}
}

// Until the index knows all pending writes, a purge is refused.
func TestPurgeIsRefusedWhileTheIndexIsBuilt(t *testing.T) {
	fsys := vfs.NewMem()
	j := reopen(t, fsys)
	if _, err := j.Purge(t.Context(), "ns", "", math.MaxUint64); !errors.Is(err, journal.ErrRebuilding) {
		t.Errorf("Purge = %v", err)
	}
}
