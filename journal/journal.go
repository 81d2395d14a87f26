package journal

import (
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/bootclock"
	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Options configures a journal.
type Options struct {
	// Dir is the directory of the journal. Open creates it with mode 0700 if it does not exist.
	Dir string
	// FS holds Dir; nil means the operating system's.
	FS vfs.FS
	// MaxBytes bounds pending writes and dead letters together, in bytes; 0 means no bound. Each counts its namespace, key
	// and value; a pending write also counts the memory that it takes. Lost versions have their own bound: see
	// [Fence.Lose].
	MaxBytes int64
	// CopiesBytes bounds the settled copies and listings on the disk, in bytes; 0 means no bound.
	// Maintain removes the least recently used ones in the background.
	CopiesBytes int64
	// HistoryBytes bounds the versions of entries that are neither pending nor a settled copy, in bytes;
	// 0 means no bound. Maintain removes the oldest ones in the background, but not what is lost.
	HistoryBytes int64
	// DiskReserve is the free space, in bytes, below which writes are refused.
	DiskReserve int64
	// Exact says that upstream carries out a write only over the version that the write is based on.
	// Then an answer does not replace that version here (see [Journal.Fill]), and a copy keeps its
	// version's time.
	Exact bool
	// Named reports whether the versions of a namespace upstream name the time of their write, though
	// upstream carries a write out over any version. An answer then does not replace the version that a
	// write is based on, and an older version is recognized by that time, also once the copy is gone. It may be nil.
	Named func(namespace string) bool
	// NotBefore returns the Unix time, in seconds, of the latest state that upstream is known to have
	// had for an entry. It is nil, or returns 0, if the engine cannot tell: then this host's clock alone
	// times its writes. A new write gets a time at least a microsecond later. So a write that follows
	// another host's is later, even if this host's clock is behind. The journal calls NotBefore in the
	// order of all writes: it must be quick, and must not call the journal.
	NotBefore func(ID) float64
	// Seen returns what upstream's engine has seen so far, in its own form. The journal keeps it in the same change as
	// each state that upstream has confirmed: after a power cut, [Journal.Seen] is not older than any such state. It
	// may be nil, and return nil. Like NotBefore, it must be quick, and must not call the journal.
	Seen func() []byte
	// Full reports whether upstream takes no puts of a namespace, as it has no room for more in it: their pending writes
	// then have a part of MaxBytes. It may be nil. Like NotBefore, it must be quick, and must not call the journal.
	Full func(namespace string) bool
	// LossLimit bounds how many confirmed entries of a namespace upstream may lack at once. Beyond it,
	// the journal rejects the listing. The zero value means no bound.
	LossLimit LossLimit
	// BootClock is the clock that counts since the machine has booted: see [bootclock.Now]. It may be nil.
	BootClock func() (boot string, since time.Duration)
	// AwaitRoom is called while fewer bytes are free than opening the journal needs, and with 0 as soon
	// as there are enough. When it returns nil, Open checks again or goes on; its error ends Open. If
	// AwaitRoom is nil, Open waits for room for as long as it takes.
	AwaitRoom func(needed int64) error
	// Fatal is called once, when the disk has failed. It must end the process; if it returns, the
	// journal acknowledges nothing more. It is called with locks held, and must not call the journal.
	Fatal func(error)
	// Logger receives Pebble's messages and reports of damaged copies; nil discards them.
	Logger *slog.Logger

	fullDiskPause time.Duration // 0 means diskfs.FullDiskPause
	receiptsKept  uint64        // 0 means ReceiptsKept
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS, o.Dir = vfs.Default, followed(o.Dir)
	}
	if o.fullDiskPause == 0 {
		o.fullDiskPause = diskfs.FullDiskPause
	}
	if o.receiptsKept == 0 {
		o.receiptsKept = ReceiptsKept
	}
	if o.BootClock == nil {
		o.BootClock = bootclock.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.FS = diskfs.Patient(o.FS, o.Logger) // guard 2.10
	return o
}

// Journal is the durable store. All its methods may be called concurrently.
type Journal struct {
	// Receipts tells the outcome of each write.
	Receipts *Receipts

	// Trust decides which answers of upstream count.
	Trust *Trust

	// Fence compares writes with other hosts' states, and keeps the states that lose.
	Fence *Fence

	// Keys walks the known keys.
	Keys *Keys

	// Listings reads the settled listings.
	Listings *Listings

	// History reads the versions of entries.
	History *History

	// Disk reports the journal's disk usage.
	Disk *Disk

	opts     Options
	store    *store.Store
	pending  *pendingSet
	copies   *copies
	dead     *deadIndex
	evictor  *evictor
	history  *retention
	full     *fullness
	sendings *sendings
	rebuilt  chan struct{} // closed when the index is complete
	purges   chan struct{} // holds a token while a purge runs
}

// readersLock guards what readers see: the index, and the copies that are not durable yet. Its holders
// work in memory only. Changes that are [store.Early], such as those of Settle and Fill, also apply one
// unsynced batch under it, so that a reader always finds a write either pending or settled.
type readersLock struct {
	sync.RWMutex
	notify func(Change) // see Subscribe
	// watchers wait for an entry's next change: see [Receipts.Await].
	watchers map[ID][]chan struct{}
}

// changed notifies the subscriber and the watchers. The caller holds the lock.
func (l *readersLock) changed(c Change) {
	if len(l.watchers) > 0 {
		for _, w := range l.watchers[c.ID] {
			close(w)
		}
		delete(l.watchers, c.ID)
	}
	if l.notify != nil {
		l.notify(c)
	}
}

// Subscribe makes the journal call notify after every change to the known state of an entry. notify
// runs under the readers' lock: it must be quick and must not call the journal. There is one
// subscriber. It subscribes before calling any other method except [Journal.Holdings], so that it
// misses no change.
func (j *Journal) Subscribe(notify func(Change)) { j.pending.readers.notify = notify }

// Close waits for the calls in flight and closes the store. Acknowledged writes are durable with or
// without it. Later calls return [ErrClosed], or an answer from memory.
func (j *Journal) Close() error { return j.store.Close() }

// Err returns nil while the journal takes writes, and otherwise [ErrFailed], [ErrClosed], [ErrFull] if
// it would refuse even the smallest write, or the error of measuring the free space; see
// [Journal.Full].
func (j *Journal) Err() error {
	err := j.refuses()
	j.full.found(err, false)
	return err
}

func (j *Journal) refuses() error {
	if err := j.store.Acquire(); err != nil {
		return err
	}
	defer j.store.Release()
	if j.store.Failed() {
		return ErrFailed
	}
	j.store.Look()
	var err error
	j.store.InOrder(func(t record.Totals) { err = j.pending.room(t, entryMemory, 0) })
	return err
}
