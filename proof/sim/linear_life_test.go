package sim

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// life is a daemon from a start to a restart, under callers.
type life struct {
	node    *node
	fs      *vfs.MemFS
	history *history
	seed    uint64
	virtual bool
	callers sync.WaitGroup

	// The life ends at the first of these; 0 never comes.
	crashAtSync, crashAtWrite int64 // of the log, counted from the start
	crashAtCall, restartAt    int64 // of the callers
	kept                      int   // percent of the unsynced data that survives a crash

	syncs, writes, calls atomic.Int64
	serving              atomic.Bool
	over                 sync.Once
	ended                chan struct{} // closed when the life is over
	// Set by a crash, and read after ended: the file system of the next life, and the
	// ticks between which it was cloned. No answer after doomedAt reached anybody.
	clone              *vfs.MemFS
	doomedAt, clonedAt int64
}

// crash ends the life now. The callers and all else go on meanwhile, as in a process
// that does not know yet; none of it has a future.
func (l *life) crash() {
	l.over.Do(func() {
		l.serving.Store(false)
		l.doomedAt = l.history.tick()
		l.node.sever()
		l.clone = l.fs.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: l.kept, RNG: rand.New(rand.NewPCG(l.seed, 0)),
		})
		l.clonedAt = l.history.tick()
		close(l.ended)
	})
}

// retire ends the life in good order.
func (l *life) retire() {
	l.over.Do(func() {
		l.serving.Store(false)
		close(l.ended)
	})
}

// called counts a call, and ends the life if this is its last.
func (l *life) called() {
	switch l.calls.Add(1) {
	case l.crashAtCall:
		go l.crash()
	case l.restartAt:
		l.retire()
	}
}

// disk makes the syncs of the log take a while, so that a step too early is seen, and
// crashes amid them. It does neither while the daemon starts and stops: Pebble then
// syncs with its mutex held, and virtual time would stand still.
func (l *life) disk() vfs.FS {
	return errorfs.Wrap(l.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !l.serving.Load() || !strings.HasSuffix(op.Path, ".log") {
			return nil
		}
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			n := l.syncs.Add(1)
			pause(l.virtual, rand.New(rand.NewPCG(l.seed, uint64(n))).IntN(4))
			if n == l.crashAtSync {
				l.crash()
			}
		case errorfs.OpFileWrite:
			if l.writes.Add(1) == l.crashAtWrite {
				l.crash()
			}
		}
		return nil
	}))
}

// pause lets the others go on for a while.
func pause(virtual bool, length int) {
	if virtual {
		time.Sleep(time.Duration(length) * time.Millisecond)
		return
	}
	for range 20 * length {
		runtime.Gosched()
	}
}
