package quota_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/upstream/quota"
)

func openLedger(fs vfs.FS) *quota.Ledger {
	return quota.OpenLedger("journal.quota", fs, slog.New(slog.DiscardHandler))
}

func spent(s *quota.Ledger) map[string]int {
	all := make(map[string]int)
	for _, sp := range s.Spent() {
		all[sp.Namespace] = sp.Used
	}
	return all
}

func recordSpent(t *testing.T, s *quota.Ledger, records ...quota.Use) {
	t.Helper()
	if err := s.Record(records...); err != nil {
		t.Fatal(err)
	}
}

// Records survive a power cut, and the highest number of a window counts.
func TestLedgerOutlivesAPowerCut(t *testing.T) {
	fs := vfs.NewCrashableMem()
	ends := time.Now().Add(time.Hour)
	s := openLedger(fs)
	recordSpent(t, s, quota.Use{Namespace: "a", Ends: ends, Used: 3}, quota.Use{Namespace: "over", Ends: time.Now().Add(-1), Used: 9})
	recordSpent(t, s, quota.Use{Namespace: "b", Ends: ends, Used: 1})
	recordSpent(t, s, quota.Use{Namespace: "a", Ends: ends, Used: 8})
	recordSpent(t, s, quota.Use{Namespace: "a", Ends: ends, Used: 7}) // a later call was overtaken
	for _, cut := range []vfs.CrashCloneCfg{{}, {UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}} {
		if diff := cmp.Diff(map[string]int{"a": 8, "b": 1}, spent(openLedger(fs.CrashClone(cut)))); diff != "" {
			t.Errorf("after a power cut (-want +got):\n%s", diff)
		}
	}
	if err := s.Close([]quota.Use{{Namespace: "a", Ends: ends, Used: 5}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"a": 5, "b": 1}, spent(openLedger(fs.CrashClone(vfs.CrashCloneCfg{})))); diff != "" {
		t.Errorf("after a close (-want +got):\n%s", diff)
	}
}

// The file does not grow with the number of records.
func TestLedgerStaysSmall(t *testing.T) {
	fs := vfs.NewMem()
	s := openLedger(fs)
	ends := time.Now().Add(time.Hour)
	for i := range 20_000 {
		recordSpent(t, s, quota.Use{Namespace: fmt.Sprint("ns", i%3), Ends: ends, Used: i})
	}
	info, err := fs.Stat("journal.quota")
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 1<<17 {
		t.Errorf("%d bytes for 3 namespaces", info.Size())
	}
	if diff := cmp.Diff(map[string]int{"ns0": 19998, "ns1": 19999, "ns2": 19997}, spent(openLedger(fs))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Neither the file nor the memory grows with namespaces whose windows have ended.
func TestLedgerForgetsWindowsThatHaveEnded(t *testing.T) {
	fs := vfs.NewMem()
	s := openLedger(fs)
	for i := range 20_000 {
		recordSpent(t, s, quota.Use{Namespace: fmt.Sprint("ns", i), Ends: time.Now().Add(-time.Second), Used: 1})
	}
	info, err := fs.Stat("journal.quota")
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 1<<17 {
		t.Errorf("%d bytes for windows that have ended", info.Size())
	}
}

// A damaged line costs only its own record, and a torn one nothing that was relied on.
func TestLedgerOfADamagedFile(t *testing.T) {
	fs := vfs.NewMem()
	s := openLedger(fs)
	ends := time.Now().Add(time.Hour)
	for _, ns := range []string{"a", "b", "c"} {
		recordSpent(t, s, quota.Use{Namespace: ns, Ends: ends, Used: 100})
	}
	f, err := fs.OpenReadWrite("journal.quota", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 500)
	n, _ := f.ReadAt(text, 0)
	text = text[:n]
	damaged := []byte(strings.Replace(string(text), "b ", "x ", 1))
	damaged[len(damaged)-1] = '0' // as if it were torn there
	if _, err := f.WriteAt(slices.Clone(damaged), 0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"a": 100}, spent(openLedger(fs))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A line without an end, however long, costs only its own record, and little memory.
func TestLedgerOfAnEndlessLine(t *testing.T) {
	fs := vfs.NewMem()
	recordSpent(t, openLedger(fs), quota.Use{Namespace: "a", Ends: time.Now().Add(time.Hour), Used: 100})
	f, err := fs.OpenReadWrite("journal.quota", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 16<<20), info.Size()); err != nil {
		t.Fatal(err)
	}
	var all map[string]int
	// A copy of the line would take an allocation for every few KiB.
	if n := testing.AllocsPerRun(1, func() { all = spent(openLedger(fs)) }); n > 1000 {
		t.Errorf("the file was read with %v allocations", n)
	}
	if diff := cmp.Diff(map[string]int{"a": 100}, all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// pipeFS is a file system where every file is a pipe without a writer.
type pipeFS struct {
	vfs.FS
	opened atomic.Bool
}

type pipeInfo struct{ vfs.FileInfo }

func (pipeInfo) Mode() os.FileMode { return os.ModeNamedPipe }

func (p *pipeFS) Stat(name string) (vfs.FileInfo, error) {
	info, err := p.FS.Stat(name)
	return pipeInfo{info}, err
}

func (p *pipeFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	p.opened.Store(true)
	return p.FS.Open(name, opts...)
}

// Opening a pipe would block the start.
func TestLedgerIsReadFromARegularFileOnly(t *testing.T) {
	mem := vfs.NewMem()
	recordSpent(t, openLedger(mem), quota.Use{Namespace: "a", Ends: time.Now().Add(time.Hour), Used: 100})
	fs := &pipeFS{FS: mem}
	if all := spent(openLedger(fs)); len(all) > 0 || fs.opened.Load() {
		t.Errorf("the file was opened, and %v read from it", all)
	}
}

// After a failure the file is rewritten: nothing relies on a failed sync.
func TestLedgerOnAFailingDisk(t *testing.T) {
	var failing atomic.Bool
	mem := vfs.NewCrashableMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileWriteAt) {
			return errors.New("injected")
		}
		return nil
	}))
	s := openLedger(fs)
	ends := time.Now().Add(time.Hour)
	recordSpent(t, s, quota.Use{Namespace: "a", Ends: ends, Used: 1})
	failing.Store(true)
	for range 2 {
		if err := s.Record(quota.Use{Namespace: "a", Ends: ends, Used: 2}); err == nil {
			t.Fatal("a record on a failing disk went well")
		}
	}
	failing.Store(false)
	recordSpent(t, s, quota.Use{Namespace: "b", Ends: ends, Used: 3})
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 3}, spent(openLedger(mem.CrashClone(vfs.CrashCloneCfg{})))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
