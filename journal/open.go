package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/entries"
	"github.com/botwired/botwired/journal/internal/recovery"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// Open opens the journal in a directory, and creates the directory if it does not exist. It mends a damaged journal first,
// if every pending write and every dead letter can be read. It does no
// background work: the pending index is complete only after [Journal.Run] has rebuilt it, but every
// method answers correctly before that.
//
// Errors: [ErrInUse], [ErrFormat], [ErrCorrupt], and those of the file system.
func Open(opts Options) (*Journal, error) {
	opts = opts.withDefaults()
	j, err := begin(opts)
	if errors.Is(err, ErrCorrupt) {
		if err = mend(opts, err); err == nil {
			j, err = begin(opts) // once: a disk that damages a journal at once is not to be trusted
		}
	}
	if err != nil {
		return nil, refusedStart(opts.Dir, err)
	}
	return j, nil
}

// mend replaces a damaged journal, if nothing that is owed is missing. Errors: the damage, or met, which a start has
// met, if there is none.
func mend(opts Options, met error) error {
	r, err := recovery.Recover(recovery.Options{
		Dir: opts.Dir, FS: opts.FS, Now: time.Now(), Whole: true, AwaitRoom: opts.AwaitRoom,
	})
	if err != nil {
		return err
	}
	// A disk that fails at a start may have Pebble panic, which looks like damage and hides the disk's error.
	if r.Healthy { // guard 2.17
		return errors.New("it does not open, though all its files are whole: check the disk: " + store.OneLine(met).Error())
	}
	opts.Logger.Warn("the journal was damaged, and is mended: every pending write and dead letter is there, and upstream is asked for what copies are not. "+
		"The damaged directory is kept, and can be deleted with its report; check the disk",
		"found", r.Found, "kept", r.Copy, "pending", r.Salvaged.Pending, "dead_letters", r.Salvaged.DeadLetters)
	return nil
}

// begin opens the journal as it is.
func begin(opts Options) (*Journal, error) {
	readers := queue.NewReaders()
	s, err := open(opts, store.Options{
		Dir: opts.Dir, FS: opts.FS, DiskReserve: opts.DiskReserve, Fatal: opts.Fatal, Logger: opts.Logger,
		Readers: readers, FullDiskPause: opts.fullDiskPause, AwaitRoom: opts.AwaitRoom,
	})
	if err != nil {
		return nil, err
	}
	q := queue.New(s, readers, queue.Options{
		MaxBytes: opts.MaxBytes, DiskReserve: opts.DiskReserve, Full: opts.Full, NotBefore: opts.NotBefore,
		BootClock: opts.BootClock, Receipts: opts.receiptsKept, Logger: opts.Logger,
	})
	e := entries.New(s, q, entries.Options{
		CopiesBytes: opts.CopiesBytes, HistoryBytes: opts.HistoryBytes, MaxBytes: opts.MaxBytes, Exact: opts.Exact, Named: opts.Named,
		Seen: opts.Seen, LossLimit: opts.LossLimit, AwaitRoom: opts.AwaitRoom, Logger: opts.Logger,
	})
	err = e.Load() // first: it turns old dead letters into lost versions, and the index must not count them
	if err == nil {
		err = q.Load()
	}
	if err != nil {
		return nil, errors.Join(store.Classify(err), s.Close())
	}
	return &Journal{
		Receipts: q.Receipts, Fence: e.Fence, Trust: e.Trust, Keys: e.Keys, History: e.History, Listings: e.Listings, Disk: e.Disk,
		opts: opts, store: s, queue: q, entries: e, purges: make(chan struct{}, 1),
	}, nil
}

// Examine returns what the journal in a directory holds, and the error with which [Open] would refuse it, as far as that can
// be seen without changing it. It finds nothing if there is no journal.
//
// Errors: those of [Open], among them [ErrInUse] where a process has the journal open; and [ErrMendable] where Open would mend
// the journal first.
func Examine(dir string) (h Holdings, err error) {
	opts := Options{Dir: dir}.withDefaults()
	dir = opts.Dir
	exists, err := store.CheckFormat(opts.FS, dir)
	if err != nil {
		return h, refusedStart(dir, err)
	}
	if cut, err := recovery.IsCut(opts.FS, dir); err != nil || cut {
		return h, errors.Join(err, fmt.Errorf("journal %s: a recovery was cut off, and the next start finishes it", dir))
	}
	if !exists {
		return h, nil
	}
	lock, err := store.LockDir(opts.FS, dir)
	if err != nil {
		return h, refusedStart(dir, err)
	}
	h, err = examine(store.Options{Dir: dir, FS: opts.FS, Lock: lock, Logger: opts.Logger})
	err = errors.Join(err, lock.Close())
	if errors.Is(err, ErrCorrupt) {
		found := err
		if _, err = recovery.Recover(recovery.Options{Dir: dir, FS: opts.FS, Now: time.Now(), Whole: true, Trial: true}); err == nil {
			return h, fmt.Errorf("journal %s: %w: %w", dir, ErrMendable, store.OneLine(found))
		}
	}
	if err != nil {
		return h, refusedStart(dir, err)
	}
	return h, nil
}

func examine(opts store.Options) (h Holdings, err error) {
	if err := recovery.Examine(opts); err != nil {
		return h, err
	}
	db, err := store.OpenPebble(opts)
	if err != nil {
		return h, err
	}
	h, err = holdingsOf(db)
	return h, store.Classify(errors.Join(err, db.Close()))
}

func open(opts Options, storeOpts store.Options) (_ *store.Store, err error) {
	fsys, dir := opts.FS, opts.Dir
	if err := withRoom(opts, func() error { return fsys.MkdirAll(dir, diskfs.DirMode) }); err != nil {
		return nil, err
	}
	if _, err := recovery.FinishSwap(fsys, dir); err != nil { // guard 4.26
		return nil, err
	}
	if _, err := store.CheckFormat(fsys, dir); err != nil { // guard 21.2
		return nil, err
	}
	// guard 20.1
	if err := withRoom(opts, func() (err error) { storeOpts.Lock, err = store.LockDir(fsys, dir); return err }); err != nil {
		return nil, err
	}
	s, err := openLocked(storeOpts)
	if err != nil {
		err = errors.Join(err, storeOpts.Lock.Close())
	}
	return s, err
}

// withRoom calls do again after it has met a full disk and there may be room (contract 3).
func withRoom(opts Options, do func() error) error {
	const needed = 1 << 20 // at least: the store says more
	for {
		err := do()
		if diskfs.IsFull(err) && opts.AwaitRoom != nil { // guard 3.37
			if err = opts.AwaitRoom(needed); err == nil {
				continue
			}
		}
		return err
	}
}

func openLocked(opts store.Options) (*store.Store, error) {
	// Check again: another process may have created the store before this one took the lock.
	exists, err := store.CheckFormat(opts.FS, opts.Dir)
	if err != nil {
		return nil, err
	}
	diskfs.MakePrivate(opts.FS, opts.Dir, opts.Logger)
	if !exists {
		if err := store.Create(opts); err != nil {
			return nil, err
		}
	}
	if err := recovery.Examine(opts); err != nil {
		return nil, err
	}
	s, err := store.Open(opts)
	if err != nil {
		return nil, err
	}
	if err := recovery.RemoveWork(opts.FS, opts.Dir); err != nil {
		opts.Logger.Warn("what a recovery left beside the journal cannot be removed: the next start tries again", "error", err)
	}
	return s, nil
}

// followed returns the directory that a symbolic link leads to, perhaps to another disk: a mended journal takes that one's
// place, not the link's. The directory need not exist.
func followed(dir string) string {
	for range 40 { // as many as Linux follows
		to, err := os.Readlink(dir)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(dir), to)
		}
		dir = to
	}
	return dir
}

// refusedStart returns the error of a journal that cannot be used. For damage, the error is one line,
// and says what to do.
func refusedStart(dir string, err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, store.ErrNoFormat) {
		return fmt.Errorf("journal %s: %w; nothing was removed: \"botwired recover\" keeps a copy and salvages what it can", dir, store.OneLine(err))
	}
	return fmt.Errorf("journal %s: %w", dir, err)
}
