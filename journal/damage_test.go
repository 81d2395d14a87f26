package journal_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

var everyDamage = flag.Bool("damage.all", false, "damage the files at every offset, not at a sample")

// sampled is how many offsets of a file are tried, unless all are.
const sampled = 150

// hangs bounds how long a damaged journal may take. It is far longer than a busy machine needs.
const hangs = 5 * time.Minute

// victim is a directory to damage.
type victim struct {
	name  string
	files map[string]string
	older map[string]string // former contents of files with the same name
	want  string            // dump of the contents
}

func readAll(t testing.TB, fs vfs.FS) map[string]string {
	t.Helper()
	files, err := tryReadAll(fs)
	no(t, err)
	return files
}

func tryReadAll(fs vfs.FS) (map[string]string, error) {
	files := make(map[string]string)
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if errors.Is(err, os.ErrNotExist) { // Pebble has removed it meanwhile
			return tryReadAll(fs)
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		files[name] = string(text)
	}
	delete(files, "LOCK")
	return files, nil
}

// later adds to older the contents that have changed since.
func (v *victim) later(files map[string]string) {
	for name, text := range files {
		if old, ok := v.older[name]; !ok || old == v.files[name] {
			v.older[name] = text
		}
	}
}

// holdingTables returns what keeps Pebble from making tables while it is on, until hold is closed.
func holdingTables() (held *errorfs.Toggle, hold chan struct{}) {
	hold = make(chan struct{})
	return &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-hold
		}
		return nil
	})}, hold
}

// victims returns directories: one that was closed, one whose process was killed, one whose process was
// killed with several logs not yet in tables, and one whose log has room left, as on a real file
// system.
func victims(t testing.TB) []*victim {
	t.Helper()
	var all []*victim
	for _, name := range []string{"closed", "killed", "killed with two logs", "killed with room left"} {
		mem := vfs.NewMem()
		held, hold := holdingTables()
		v := &victim{name: name, older: make(map[string]string)}
		j := open(t, errorfs.Wrap(mem, held))
		fill(t, j)
		j.MarkNow()
		v.later(readAll(t, mem))
		if name == "killed with two logs" {
			held.On()
			no(t, j.RotateLog())
		}
		put(t, j, key("pending1"), "newer")
		settle(t, j, key("pending2"))
		put(t, j, key("pending0"), "newest")
		remove(t, j, key("pending3"))
		no(t, second(j.Fill(key("filled"), observed("a newer value of filled"), always)))
		j.MarkNow()
		v.want = dump(t, j)
		v.files = readAll(t, mem)
		close(hold)
		if name == "closed" {
			no(t, j.Close())
			v.files = readAll(t, mem)
		}
		if name == "killed with room left" {
			logs := slices.DeleteFunc(slices.Sorted(maps.Keys(v.files)), func(n string) bool { return !strings.HasSuffix(n, ".log") })
			v.files[logs[len(logs)-1]] += strings.Repeat("\x00", 40_000) // more than one block of a log
		}
		all = append(all, v)
	}
	return all
}

// damage is one file changed.
type damage struct {
	what string
	file string
	text string
	gone bool
}

func (v *victim) damages(rng *rand.Rand) []damage {
	var all []damage
	names := slices.Sorted(maps.Keys(v.files))
	for _, name := range names {
		text := v.files[name]
		all = append(all, damage{what: "deleted", file: name, gone: true}, damage{what: "emptied", file: name})
		if old, ok := v.older[name]; ok && old != text {
			all = append(all, damage{what: "older version", file: name, text: old})
		}
		for _, i := range offsets(rng, len(text)) {
			b := []byte(text)
			b[i] ^= 1 << rng.IntN(8)
			all = append(all, damage{what: "flipped", file: name, text: string(b)})
			all = append(all, damage{what: "truncated", file: name, text: text[:i]})
		}
	}
	return all
}

// offsets returns all offsets of a small file, and a sample of a large one's.
func offsets(rng *rand.Rand, size int) []int {
	if *everyDamage || size <= sampled {
		sampleOf := make([]int, size)
		for i := range sampleOf {
			sampleOf[i] = i
		}
		return sampleOf[:(size+fewer-1)/fewer]
	}
	return rng.Perm(size)[:sampled/fewer]
}

// suffer opens the damaged directory, reads all of it and describes the outcome.
func (v *victim) suffer(d damage) (outcome string) {
	defer func() {
		if p := recover(); p != nil {
			outcome = fmt.Sprint("PANIC: ", p)
		}
	}()
	mem := vfs.NewMem()
	if err := v.write(mem, d); err != nil {
		return "WRONG: " + err.Error()
	}
	fatal := make(chan error, 1)
	j, err := journal.Open(journal.WithoutPause(journal.Options{Dir: dir, FS: mem, Fatal: func(err error) { fatal <- err }}))
	if err != nil {
		if removed := v.removedFrom(mem, d); removed != "" {
			return "WRONG: it does not start, and " + removed + " is not what it was"
		}
		return refused("open", err)
	}
	defer func() { _ = j.Close() }()
	if err := j.Run(context.Background()); err != nil {
		return refused("run", err)
	}
	got, err := tryDump(j)
	select {
	case err := <-fatal:
		return refused("fatal", err)
	default:
	}
	if err != nil {
		return refused("read", err)
	}
	want := v.want
	if isMended(mem) {
		want, got = withoutSent(want), withoutSent(got)
		if onlyCopiesAreUnknown(want, got) || want == got {
			return "mended"
		}
	}
	if onlyCopiesAreUnknown(want, got) {
		return "asked anew"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return "WRONG: " + diff
	}
	return "intact"
}

// isMended reports whether a start has kept a damaged directory.
func isMended(mem vfs.FS) bool {
	names, err := mem.List(mem.PathDir(dir))
	return err == nil && slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, ".damaged-") })
}

// withoutSent returns a dump without what a mended journal does not know: what was sent; and without the last number, which jumps.
func withoutSent(dump string) string {
	lines := slices.DeleteFunc(strings.Split(dump, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "left of ") || strings.HasPrefix(line, "sending ")
	})
	_, lines[0], _ = strings.Cut(lines[0], " pending ")
	return strings.Join(lines, "\n")
}

// onlyCopiesAreUnknown reports whether a dump differs from another one only in copies, receipts and losses that
// are unknown, or in a listing (contract 4).
func onlyCopiesAreUnknown(want, got string) bool {
	if want == got {
		return false
	}
	const copied, unknown = " kind 1 ", ` kind 0 seq 0 "" 0 0.000000 0.000000`
	rest := strings.Split(got, "\n")
	noListing := slices.ContainsFunc(rest, func(line string) bool { return strings.HasPrefix(line, "listing false") })
	for line := range strings.SplitSeq(want, "\n") {
		if noListing && strings.HasPrefix(line, "row ") {
			continue
		}
		if (strings.HasPrefix(line, "receipt ") || strings.HasPrefix(line, "base of ") || strings.HasPrefix(line, "lost ")) && (len(rest) == 0 || rest[0] != line) {
			continue
		}
		entry, _, isCopy := strings.Cut(line, copied)
		switch {
		case len(rest) == 0:
			return false
		case rest[0] == line:
		case isCopy && rest[0] == entry+unknown:
		case noListing && strings.HasPrefix(line, "listing ") && strings.HasPrefix(rest[0], "listing "):
		default:
			return false
		}
		rest = rest[1:]
	}
	return len(rest) == 0
}

// removedFrom names a file that is gone, or no longer as the damage left it.
func (v *victim) removedFrom(fs vfs.FS, d damage) string {
	left, err := tryReadAll(fs)
	if err != nil {
		return err.Error()
	}
	for name, text := range v.files {
		if name == d.file {
			text = d.text
		}
		if now, ok := left[name]; now != text || ok == (name == d.file && d.gone) {
			return name
		}
	}
	return ""
}

func (v *victim) write(fs vfs.FS, d damage) error {
	err := fs.MkdirAll(dir, 0o700)
	for name, text := range v.files {
		if name == d.file {
			if d.gone {
				continue
			}
			text = d.text
		}
		f, createErr := fs.Create(fs.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
		if createErr != nil {
			return createErr
		}
		_, writeErr := f.Write([]byte(text))
		err = errors.Join(err, writeErr, f.Close())
	}
	return err
}

// onDisk returns a disk with the damaged directory.
func (v *victim) onDisk(t testing.TB, d damage) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	no(t, v.write(mem, d))
	return mem
}

// diskWith returns a disk with the given files in the journal's directory.
func diskWith(t testing.TB, files map[string]string) *vfs.MemFS {
	t.Helper()
	return (&victim{files: files}).onDisk(t, damage{})
}

func refused(where string, err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "\n"), where != "read" && !strings.Contains(text, dir):
		return "UNCLEAR: " + text
	case errors.Is(err, journal.ErrCorrupt):
		return where + ": corrupt"
	case errors.Is(err, journal.ErrFormat):
		return where + ": format"
	}
	return where + ": other"
}

// contract 4: after damage to any one file, the journal is as before or reports the damage.
func TestEveryDamageIsNoticed(t *testing.T) {
	for _, v := range victims(t) {
		t.Run(v.name, func(t *testing.T) {
			if got := v.suffer(damage{}); got != "intact" {
				t.Fatalf("undamaged, it is %s", got)
			}
			h := fnv.New64()
			_, _ = h.Write([]byte(v.name))
			v.sufferAll(t, v.damages(rand.New(rand.NewPCG(h.Sum64(), 4))))
		})
	}
}

func (v *victim) sufferAll(t *testing.T, all []damage) {
	var mu sync.Mutex
	outcomes := make(map[string]int)
	var wg sync.WaitGroup
	work := make(chan damage)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for d := range work {
				late := time.AfterFunc(hangs, func() { panic(fmt.Sprint("hangs: ", d.file, " ", d.what, " ", len(d.text))) })
				got := v.suffer(d)
				late.Stop()
				mu.Lock()
				if strings.ContainsAny(got[:2], "WPU") {
					t.Errorf("%s %s to/of %d bytes: %s", d.file, d.what, len(d.text), got)
					got = got[:5]
				}
				outcomes[fmt.Sprintf("%-9s %-14s %s", kindOf(d.file), d.what, got)]++
				mu.Unlock()
			}
		})
	}
	for _, d := range all {
		work <- d
	}
	close(work)
	wg.Wait()
	t.Logf("%d damages", len(all))
	for _, line := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%6d  %s", outcomes[line], line)
	}
}
