package sim

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// world is the simulated world, and the model to compare it with.
type world struct {
	fs       *vfs.MemFS
	free     atomic.Int64 // on the disk
	tripwire *tripwire
	up       *service
	node     *node
	settings settings
	beliefs  map[journal.ID]*belief

	acknowledged map[uint64]state // by sequence number
	dead         map[uint64]bool  // the dead letters that are known
	puts         int              // acknowledged so far
	squeezed     bool             // the disk was once nearly full
	setBack      bool             // upstream's clock was: where a copy had to go, nobody knows the time before
}

func newWorld(limit quota.Limit, change ...func(*settings)) (*world, error) {
	w := &world{settings: usual, fs: vfs.NewCrashableMem(), beliefs: make(map[journal.ID]*belief), acknowledged: make(map[uint64]state), dead: make(map[uint64]bool)}
	for _, id := range entries {
		w.beliefs[id] = &belief{possible: []state{{}}}
	}
	w.free.Store(roomy)
	w.settings.quota = limit
	for _, c := range change {
		c(&w.settings)
	}
	w.up = newServiceOf(w.settings)
	w.up.quota = limit
	return w, w.start()
}

const (
	// roomy is a disk that is nearly empty.
	roomy = 1 << 40
	// noticed is how long the journal may take to notice the free space on the disk.
	noticed = 50 * time.Millisecond
)

// disk is a file system with the world's free space.
type disk struct {
	vfs.FS
	free *atomic.Int64
}

func (d disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: uint64(d.free.Load())}, nil
}

// squeeze sets the free space on the disk.
func (w *world) squeeze(free int64) {
	w.free.Store(free)
	w.squeezed = w.squeezed || free < 2*diskReserve
	time.Sleep(noticed)
}

// full reports whether the daemon has to refuse writes (contract 3).
func (w *world) full() bool { return w.free.Load() < diskReserve }

func (w *world) start() (err error) {
	w.tripwire = &tripwire{}
	wire := w.tripwire
	fs := errorfs.Wrap(disk{w.fs, &w.free}, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			wire.tread()
		}
		return nil
	}))
	if w.node, err = open(fs, w.up, w.settings); err != nil {
		return err
	}
	w.node.start()
	return nil
}

// tripwire calls a function before one of the syncs to come.
type tripwire struct {
	mu   sync.Mutex
	left int
	trip func()
}

// set makes the nth sync from now call trip first; 0 is never.
func (t *tripwire) set(n int, trip func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left, t.trip = n, trip
}

func (t *tripwire) tread() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left--; t.left == 0 {
		t.trip()
	}
}

func (w *world) close() error {
	err := w.node.end()
	w.up.close()
	return err
}

func (w *world) step(s step) string {
	violation := w.act(s)
	if violation == "" {
		violation = w.counts()
	}
	if violation == "" {
		violation = w.look()
	}
	return violation
}

func (w *world) act(s step) string {
	switch s.action {
	case put:
		return w.put(s)
	case remove:
		return w.remove(s.id)
	case get:
		return w.get(s.id)
	case insist:
		return w.get(s.id, "Cache-Control", "no-cache")
	case list:
		return w.list(s.id.Namespace)
	case wait:
		time.Sleep(s.duration)
	case become:
		w.up.become(condition{s.fault, s.duration, s.page}, s.id.Namespace)
	case crash:
		w.node.sever()
		return w.crash(w.clone(s))
	case crashIn:
		return w.crashIn(s)
	case restart:
		return w.restart(s.duration)
	case forget:
		w.up.forget()
		for _, b := range w.beliefs {
			b.forgotten = true
		}
	case foreign:
		w.foreign(s)
	case setBack:
		w.setBack = true
		w.up.setBack(s.duration)
	case squeeze:
		w.squeeze(s.free)
	case flushAll:
		w.node.do(http.MethodPost, "/_botwired/flush?timeout="+s.duration.String(), "")
	}
	return ""
}

// foreign has another host write to an entry.
func (w *world) foreign(s step) {
	if !w.up.foreignFits(s.id.Namespace) {
		return
	}
	b := w.beliefs[s.id]
	b.maybeForeign(state{true, s.value})
	known, err := w.node.journal.Lookup(s.id)
	w.up.foreign(s.id, s.value, b.newest, err == nil && known.Seq == 0)
	time.Sleep(time.Millisecond) // the daemon's next write has a later time, as it is a later one
}

// clone returns the file system as a power cut would leave it now.
func (w *world) clone(s step) *vfs.MemFS {
	return w.fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: s.percent, RNG: rand.New(rand.NewPCG(uint64(s.seed), 0)),
	})
}

// crash restarts the daemon on a clone of the file system.
func (w *world) crash(clone *vfs.MemFS) string {
	if err := w.node.end(); err != nil {
		return "ending: " + err.Error()
	}
	w.up.excuse(entries...)
	w.up.newLife()
	w.fs = clone
	if err := w.start(); err != nil {
		return "starting again: " + err.Error()
	}
	return ""
}

// crashIn crashes before one of the syncs that a put waits for. The put may be there
// afterwards or not: nobody got an answer.
func (w *world) crashIn(s step) string {
	var clone *vfs.MemFS
	w.tripwire.set(s.sync, func() {
		w.node.sever()
		clone = w.clone(s)
	})
	b := w.beliefs[s.id]
	before := *b
	violation := w.put(s)
	w.tripwire.set(0, nil)
	if violation != "" || clone == nil {
		return violation
	}
	*b = before
	b.written = 0
	b.possible = append(slices.Clone(b.possible), state{true, s.value})
	b.history = append(slices.Clone(b.history), state{true, s.value})
	return w.crash(clone)
}

func (w *world) restart(flushes time.Duration) string {
	w.up.stops(w.node, flushes)
	if err := w.node.end(); err != nil {
		return "stopping: " + err.Error()
	}
	w.up.excuse(entries...)
	w.up.newLife()
	if err := w.start(); err != nil {
		return "starting again: " + err.Error()
	}
	return ""
}
