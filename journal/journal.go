package journal

import (
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

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
	// MaxBytes bounds pending writes and dead letters together, in bytes; 0 means no bound. Each
	// counts with its namespace, key and value, and a pending write also with the memory that it
	// takes.
	MaxBytes int64
	// CopiesBytes bounds the settled copies and listings on the disk, in bytes; 0 means
	// no bound. In the background, Maintain removes the least recently used.
	CopiesBytes int64
	// DiskReserve is the free space, in bytes, below which writes are refused.
	DiskReserve int64
	// Exact says that upstream is exact: it carries a write out only over the version that the write is
	// based on. An answer then does not replace that version here (see [Journal.Fill]), and a copy keeps its
	// version's time.
	Exact bool
	// NotBefore returns the time, in Unix seconds, of the latest state of an entry that upstream is
	// known to have had; nil if nobody knows. A new write gets a time that is at least a microsecond
	// later. So a write that follows another host's is later, even if this host's clock is behind. The
	// journal calls NotBefore in the order of all writes: it must be quick, and must not call the
	// journal.
	NotBefore func(ID) float64
	// Sizes bounds what namespaces hold; nil means no bound.
	Sizes *Sizes
	// LossLimit is how many confirmed entries of a namespace upstream may lack at once before the
	// journal rejects its listing; zero means any number.
	LossLimit LossLimit
	// AwaitRoom, if not nil, is called while fewer bytes are free than opening the journal
	// needs, and with 0 as soon as there are enough. When it returns nil, Open looks again,
	// or goes on; its error ends Open. If it is nil, Open waits for room by itself, for as
	// long as it takes.
	AwaitRoom func(needed int64) error
	// Fatal is called once, when the disk has failed. It must end the process; if it returns, the
	// journal acknowledges nothing more. It is called with locks held, and must not call the
	// journal.
	Fatal func(error)
	// Logger receives Pebble's messages and reports of damaged copies; nil discards them.
	Logger *slog.Logger

	fullDiskPause time.Duration // 0 is diskfs.FullDiskPause
	receiptsKept  uint64        // 0 is ReceiptsKept
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.fullDiskPause == 0 {
		o.fullDiskPause = diskfs.FullDiskPause
	}
	if o.receiptsKept == 0 {
		o.receiptsKept = ReceiptsKept
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

	// WriteThrough serves writes that go upstream before they are journaled.
	WriteThrough *WriteThrough

	// Fence compares writes with other hosts' states, and keeps the states that lose.
	Fence *Fence

	// Keys walks the known keys.
	Keys *Keys

	// Listings reads the settled listings.
	Listings *Listings

	// Disk reports the journal's disk usage.
	Disk *Disk

	opts    Options
	store   *store.Store
	pending *pendingSet
	copies  *copies
	dead    *deadIndex
	evictor *evictor
	full    *fullness
	rebuilt chan struct{} // closed when the index is complete
}

// readersLock guards what readers see: the index, and which copies readers must wait for. Its
// holders work in memory only. Settle, DeadLetter, Lose, Fill and a listing's Commit also apply one
// unsynced batch under it, so that a reader finds a write either pending or settled, never neither.
type readersLock struct {
	sync.RWMutex
	notify func(Change) // see Subscribe
	// watchers wait for the next change of an entry: see [Receipts.Await].
	watchers map[ID][]chan struct{}
}

// changed tells the subscriber and the watchers. The caller holds the lock.
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

// Subscribe makes the journal call notify after every change to the known state of an entry, with the
// readers' lock held: notify must be quick and must not call the journal. There is one subscriber,
// which subscribes before any other method but [Journal.Holdings] is called, so that it misses no
// change.
func (j *Journal) Subscribe(notify func(Change)) { j.pending.readers.notify = notify }

// Close waits for the calls under way and closes the store. Acknowledged writes are
// durable with or without it. Calls that come later return [ErrClosed] or what they find
// in memory.
func (j *Journal) Close() error { return j.store.Close() }

// Err returns nil while the journal takes writes, and otherwise [ErrFailed], [ErrClosed], or
// [ErrFull] if it would refuse even the smallest write; see [Journal.Full].
func (j *Journal) Err() error {
	err := j.refuses()
	j.full.found(err)
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
	if err := j.store.Look(); err != nil {
		return err
	}
	var err error
	j.store.InOrder(func(t record.Totals) { err = j.pending.room(t, entryMemory, 0) })
	return err
}
