package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options configures a journal.
type Options struct {
	// Dir is the directory of the journal, made with mode 0700 if need be.
	Dir string
	// FS holds Dir; nil means the operating system's.
	FS vfs.FS
	// MaxBytes bounds pending writes and dead letters together, each counted with
	// its namespace, key and value and 64 bytes; 0 means no bound.
	MaxBytes int64
	// DiskReserve is the free space, in bytes, below which writes are refused.
	DiskReserve int64
	// Fatal is called once when the disk has failed. It must end the process; if it
	// returns, the journal acknowledges nothing any more. It is called wherever the
	// failure is met, with locks held, and must not call the journal.
	Fatal func(error)
	// Logger receives what Pebble has to say, and of damaged copies; nil discards it.
	Logger *slog.Logger

	fullDiskPause time.Duration // 0 is the constant of that name
}

// Journal is the durable store. All its methods may be called concurrently.
type Journal struct {
	opts   Options
	notify func(Change) // see Subscribe
	db     *pebble.DB
	lock   *pebble.Lock
	disk   diskGauge
	keeper keeper
	failed atomic.Bool
	// failing has Fatal called once.
	failing sync.Once
	wedged  atomic.Bool // Pebble panicked, and may hold its locks for ever

	// life is held for reading while the store is used: Close waits for that. It is
	// taken before all other locks, and never twice.
	life    sync.RWMutex
	closed  bool        // guarded by life
	closing atomic.Bool // what Pebble complains of from now on does not end the process
	// endError is the first failure of the disk that Pebble met while closing, in what it
	// does in the background, which its Close does not tell.
	endError atomic.Pointer[error]

	rebuilt chan struct{} // closed when the index is complete

	// commitMu puts batches in order: whoever holds it is the only one that assigns
	// sequence numbers and applies batches, so that the state record of each batch
	// is true of the store as that batch leaves it. It is taken before mu and never
	// held during an fsync, but by a recovery, which nobody waits for.
	commitMu  sync.Mutex
	totals    totals  // guarded by commitMu; counts what gathers too
	lastStamp float64 // likewise
	// gathering is the group that the next sync makes durable, and syncing the one that
	// a sync is under way for; nil if there is none. Guarded by commitMu.
	gathering, syncing *group
	// superseded is how many bytes of totals belong to writes that a newer one has
	// followed: they do not count for the budget, as they go with one of the next
	// batches. Guarded by commitMu.
	superseded int64

	// mu guards what readers see. It is held for memory operations only, and by
	// settling for one unsynced batch, so that a reader finds a write either pending
	// or settled, never neither.
	mu      sync.RWMutex
	index   index
	garbage []retired // superseded records to be removed by the next batch
	// filling has an open channel for each entry (or, with an empty key, listing)
	// whose settled copy was replaced and is not yet durable: readers wait for it,
	// so that nothing is answered that a power cut could take back (contract 7).
	filling map[ID]chan struct{}
	// observers are the listings under way, by namespace: they are told of every
	// write that settles meanwhile (contract 8).
	observers map[string][]*ListingFill
}

// retired is a pending record that a newer one has taken the place of.
type retired struct {
	id ID
	v  version
}

// Open opens the journal of a directory, made if it does not exist. It does no
// background work: the pending index is complete only after [Journal.Run] has
// rebuilt it, but every method gives right answers before.
//
// Errors: [ErrInUse], [ErrFormat], [ErrCorrupt], and those of the file system.
func Open(opts Options) (*Journal, error) {
	j := newJournal(opts)
	if err := j.open(); err != nil {
		return nil, refusal(opts.Dir, err)
	}
	return j, nil
}

func newJournal(opts Options) *Journal {
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if opts.fullDiskPause == 0 {
		opts.fullDiskPause = fullDiskPause
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Journal{
		opts:      opts,
		rebuilt:   make(chan struct{}),
		index:     newIndex(),
		filling:   make(map[ID]chan struct{}),
		observers: make(map[string][]*ListingFill),
	}
}

// Close waits for the calls under way and closes the store. Acknowledged writes are
// durable with or without it. What is called afterwards returns [ErrClosed] or
// what it finds in memory.
func (j *Journal) Close() error {
	j.endMarks()
	j.life.Lock()
	defer j.life.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	j.closing.Store(true)
	if j.wedged.Load() {
		return ErrFailed // closing would wait for ever, and the lock must not outlive the store
	}
	err := j.db.Close()
	if late := j.endError.Load(); late != nil {
		err = errors.Join(err, *late)
	}
	if err != nil && j.failed.Load() {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	if err == nil && !j.failed.Load() {
		err = j.keepMark(j.totals) // all of it is durable now
	}
	return errors.Join(err, j.lock.Close())
}

// enter begins a use of the store, to be ended by leave.
func (j *Journal) enter() error {
	j.life.RLock()
	if j.closed {
		j.life.RUnlock()
		return ErrClosed
	}
	return nil
}

func (j *Journal) leave() { j.life.RUnlock() }

// Err is nil while writes can be taken; else it is [ErrFailed], [ErrClosed], or
// [ErrFull] when even the smallest write would be refused.
func (j *Journal) Err() error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	if j.failed.Load() {
		return ErrFailed
	}
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	return j.room(pendingOverhead, 0)
}

// fail records that the disk has failed and ends the process (contract 2). Whoever
// meets the next failure waits meanwhile: Pebble may be about to panic over it.
func (j *Journal) fail(err error) {
	j.failed.Store(true)
	j.failing.Do(func() {
		if j.opts.Fatal != nil {
			j.opts.Fatal(fmt.Errorf("journal %s: %w", j.opts.Dir, oneLine{err}))
		}
	})
}

// oneLine is an error whose text is cut to its first line: Pebble's may go on with
// stacks and listings of directories.
type oneLine struct{ error }

func (e oneLine) Error() string {
	text, _, _ := strings.Cut(e.error.Error(), "\n")
	return text
}

func (e oneLine) Unwrap() error { return e.error }

// Subscribe has notify called after every change to what is known of an entry, with
// the journal's lock held: it must be quick and must not call the journal. There is
// one subscriber, which subscribes before anything else but [Journal.Holdings] is
// called: so everybody it tells exists already.
func (j *Journal) Subscribe(notify func(Change)) { j.notify = notify }

func (j *Journal) changed(c Change) {
	if j.notify != nil {
		j.notify(c)
	}
}

// unixNow is the wall clock in BotWire's unit.
func unixNow() float64 { return toUnix(time.Now()) }

func toUnix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func fromUnix(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }
