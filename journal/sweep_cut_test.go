//go:build sweep

package journal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
)

// cut is what a power cut at one operation left.
type cut struct {
	n     int
	kept  int // percent of what was not synced
	fs    *vfs.MemFS
	whole *vfs.MemFS // what there was at that moment, where entries of a directory are drawn
	known *ledger
}

// A power cut right before any change of a file takes nothing that was acknowledged and
// leaves nothing half done, whatever of the unsynced data it keeps (contract 1, 4, 13).
//
// It runs in a process of its own: Pebble leaves a goroutine behind where it refuses to
// start.
func TestPowerCutSweep(t *testing.T) {
	if os.Getenv(journal.AloneEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPowerCutSweep$", "-test.v", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), journal.AloneEnv+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Error(err)
		}
		t.Logf("%s", out)
		return
	}
	cuts := make(chan cut)
	counts := make(map[string]int)
	var mu sync.Mutex
	var examiners sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) { // to start and to end a store is mostly waiting
		examiners.Go(func() {
			for c := range cuts {
				how, err := c.examine()
				if err != nil {
					t.Errorf("operation %d, %d %% kept: %v", c.n, c.kept, err)
				}
				mu.Lock()
				counts[fmt.Sprintf("%d %% kept%s", c.kept, how)]++
				mu.Unlock()
			}
		})
	}
	mem, n := newCalmFS(), 0
	v := &voyage{ledger: newLedger()}
	var amid sync.Mutex
	v.fs = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if changes(op) {
			amid.Lock()
			defer amid.Unlock()
			n++
			for _, c := range v.cutsNow(mem, n) {
				cuts <- c
			}
		}
		return nil
	}))
	done := make(chan struct{})
	go func() { defer close(done); v.sail() }()
	<-done
	close(cuts)
	examiners.Wait()
	no(t, v.stop)
	if n < 200 {
		t.Errorf("only %d operations", n)
	}
	t.Logf("power cuts at %d operations: %v", n, counts)
}

// cutsNow are the power cuts at this moment. Other callers may go on meanwhile: a clone
// is of use only if what is known did not change while it was made.
func (v *voyage) cutsNow(mem *calmFS, n int) []cut {
	rng := rand.New(rand.NewPCG(sweepSeed, uint64(n)))
	for {
		known, moment := v.now()
		none := mem.CrashClone(vfs.CrashCloneCfg{})
		some := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		all := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		whole := all.CrashClone(vfs.CrashCloneCfg{})
		if _, still := v.now(); still == moment {
			return []cut{{n, 0, none, nil, known}, {n, 50, some, whole, known}, {n, 100, all, nil, known}}
		}
	}
}

// examine opens what is left. A cut that kept the entry of a marker without that of the
// manifest which it names, and which was made and synced before it, is none that a file
// system with ordered metadata (ext4, XFS, APFS) leaves: the start refuses it, and with
// the entry in its place it must be whole.
func (c cut) examine() (how string, _ error) {
	before := c.fs.CrashClone(vfs.CrashCloneCfg{})
	err := c.known.opensWith(c.fs)
	if err == nil || c.whole == nil {
		return "", err
	}
	name, missing := missingManifest(before)
	if !missing || !strings.Contains(err.Error(), name) {
		return "", err
	}
	if err := vfs.CopyAcrossFS(c.whole, name, before, name); err != nil {
		return "", err
	}
	return " (refused, a manifest's entry out of order)", c.known.opensWith(before)
}

// missingManifest is the path of the manifest that the newest marker names, if it is
// not there.
func missingManifest(mem *vfs.MemFS) (path string, missing bool) {
	names, err := mem.List(dir)
	if err != nil {
		return "", false
	}
	newest := ""
	for _, name := range names {
		if strings.HasPrefix(name, "marker.manifest.") {
			newest = max(newest, name)
		}
	}
	path = mem.PathJoin(dir, newest[strings.LastIndexByte(newest, '.')+1:])
	_, err = mem.Stat(path)
	return path, newest != "" && errors.Is(err, fs.ErrNotExist)
}
