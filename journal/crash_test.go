package journal_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// history holds what the writers of one entry know: the writes begun, and those acknowledged, by
// sequence number.
type history struct {
	mu    sync.Mutex
	begun map[string]bool // values
	acked uint64          // the highest acknowledged
	value string          // its value
	seqs  map[uint64]bool
	seqOf map[string]uint64 // sequence numbers of the acknowledged values
}

func (h *history) write(t *testing.T, j *journal.Journal, id journal.ID, value string) {
	h.mu.Lock()
	h.begun[value] = true
	h.mu.Unlock()
	w, err := j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: value})
	if err != nil {
		t.Error(err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seqs[w.Seq] {
		t.Errorf("sequence number %d was given twice", w.Seq)
	}
	h.seqs[w.Seq] = true
	h.seqOf[value] = w.Seq
	if w.Seq > h.acked {
		h.acked, h.value = w.Seq, value
	}
}

// present is what is certain about an entry at a moment.
type present struct {
	acked uint64
	value string
}

func (h *history) now() present {
	h.mu.Lock()
	defer h.mu.Unlock()
	return present{h.acked, h.value}
}

// A power cut at a random moment under load loses nothing that was acknowledged, leaves nothing half
// done, and leaves a journal that passes its checks (contracts 1, 5, 7 and 13).
func TestPowerCutsUnderLoad(t *testing.T) {
	for _, kept := range []int{0, 50, 100} {
		t.Run(fmt.Sprint(kept, " percent kept"), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(kept), 7))
			fs := vfs.NewCrashableMem()
			histories := make([]*history, 6)
			for i := range histories {
				histories[i] = &history{begun: make(map[string]bool), seqs: make(map[uint64]bool), seqOf: make(map[string]uint64)}
			}
			for life := range 6 {
				fs = cutPower(t, rng, fs, histories, life, kept)
			}
		})
	}
}

// cutPower runs one life of a journal under load, cuts the power, and checks and returns what the crash
// leaves.
func cutPower(t *testing.T, rng *rand.Rand, fs *vfs.MemFS, histories []*history, life, kept int) *vfs.MemFS {
	j, err := journal.Open(journal.Options{Dir: dir, FS: fs, Fatal: func(err error) { t.Error(err) }})
	no(t, err)
	moment := make(chan struct{})
	target, done := rng.IntN(300), 0
	var mu sync.Mutex
	count := func() {
		mu.Lock()
		defer mu.Unlock()
		if done++; done == target+1 {
			close(moment)
		}
	}
	var wg sync.WaitGroup
	for e, h := range histories {
		for i := range 2 {
			wg.Go(func() {
				for k := range 60 {
					h.write(t, j, key("%d", e), fmt.Sprintf("%d/%d/%d", life, i, k))
					count()
				}
			})
		}
		stop := make(chan struct{})
		close(stop)
		wg.Go(func() { carry(t, j, key("%d", e), stop) })
	}
	wg.Go(func() { no(t, j.Run(t.Context())) })
	<-moment
	var before []present
	for _, h := range histories {
		before = append(before, h.now())
	}
	clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rng})
	wg.Wait()
	check(t, j)
	no(t, j.Close())
	examine(t, clone.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}), histories, before)
	return clone
}

func examine(t *testing.T, fs *vfs.MemFS, histories []*history, before []present) {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: dir, FS: fs})
	no(t, err)
	defer func() { no(t, j.Close()) }()
	no(t, j.Run(t.Context()))
	check(t, j)
	no(t, j.CheckReceipts())
	for e, h := range histories {
		state := lookup(t, j, key("%d", e))
		switch {
		case state.Kind == journal.Unknown && before[e].acked != 0:
			t.Errorf("entry %d: write %d is lost", e, before[e].acked)
		case state.Kind == journal.Value && state.Seq < before[e].acked:
			t.Errorf("entry %d: write %d came back after %d", e, state.Seq, before[e].acked)
		case state.Kind == journal.Settled && h.seqOf[state.Value] < before[e].acked:
			t.Errorf("entry %d: settled write %d came back after %d", e, h.seqOf[state.Value], before[e].acked)
		case state.Kind != journal.Unknown && !h.begun[state.Value]:
			t.Errorf("entry %d holds %q, which nobody wrote", e, state.Value)
		}
		// The sequence numbers that the lost part of that life used are free again: the test goes on
		// from the crash.
		clear(h.seqs)
		h.acked, h.value = max(state.Seq, h.seqOf[state.Value]), state.Value
	}
}

// calmFS is a crashable file system that can be cloned at any moment. In MemFS, ReuseForWrite takes a
// read lock twice, nested. A clone that comes in between waits for it, and it waits for the clone: a
// deadlock.
type calmFS struct {
	*vfs.MemFS
	mu sync.Mutex
}

func newCalmFS() *calmFS { return &calmFS{MemFS: vfs.NewCrashableMem()} }

func (c *calmFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.MemFS.ReuseForWrite(from, to, category)
}

func (c *calmFS) CrashClone(cfg vfs.CrashCloneCfg) *vfs.MemFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.MemFS.CrashClone(cfg)
}
