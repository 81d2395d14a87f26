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

// cut is the result of a power cut at one operation.
type cut struct {
	n     int
	kept  int // percentage of the unsynced data that is kept
	fs    *vfs.MemFS
	whole *vfs.MemFS // everything at that moment, as the source of directory entries
	known *ledger
}

// A power cut right before any change of a file loses nothing that was acknowledged and leaves nothing
// half done, regardless of how much unsynced data survives (contract 1, 4, 13).
//
// The test runs in a separate process, because Pebble leaks a goroutine when it refuses to start.
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
	for range 4 * runtime.GOMAXPROCS(0) { // starting and ending a store is mostly waiting
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

// cutsNow returns the power cuts at this moment. Other callers may continue meanwhile: a clone is
// useful only if the known state did not change while it was made.
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

// examine opens the remains. A cut may keep a marker's directory entry without the entry of the
// manifest that it names, which was made and synced earlier. A file system with ordered metadata (ext4,
// XFS, APFS) never leaves that. The start refuses it, and with the manifest's entry restored the
// journal must be complete.
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

// missingManifest returns the path of the manifest that the newest marker names, if it is missing.
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
