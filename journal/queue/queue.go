package queue

import (
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// EntryBytes is the number of bytes that the budget counts for a pending write on top of its
// namespace, key and value: for the index, the flusher's schedule and the garbage collector's overhead.
// A test compares it with the memory of the whole process.
const EntryBytes = 512

// Options configures a queue.
type Options struct {
	// MaxBytes bounds pending writes and dead letters together, in bytes; 0 means no bound. DiskReserve is the free space
	// to keep, in bytes, for error messages.
	MaxBytes, DiskReserve int64
	// Full reports whether upstream takes no puts of a namespace. It may be nil.
	Full func(namespace string) bool
	// NotBefore returns the Unix time, in seconds, of the latest state that upstream is known to have had for an entry. It
	// may be nil. The queue calls it in the store's order.
	NotBefore func(ID) float64
	// BootClock is the clock that counts since the machine has booted.
	BootClock func() (boot string, since time.Duration)
	// Receipts bounds the receipts that are kept.
	Receipts uint64
	Logger   *slog.Logger
}

// Queue holds the acknowledged writes that upstream has not confirmed yet, and what became of those that have ended. It
// admits writes, and keeps the dead letters, the receipts and the names of requests. Its methods may be called
// concurrently. Those that the journal passes on acquire the store themselves; the caller of any other one that reads or
// changes the store has acquired it, but for [Queue.MaintainReceipts].
type Queue struct {
	// Receipts tells the outcome of each write.
	Receipts *Receipts
	// Letters is the index of the dead letters.
	Letters *Letters
	// Readers is the lock of what readers see.
	Readers *Readers

	opts     Options
	store    *store.Store
	index    *pending.Index // guarded by Readers
	receipts *generations   // of writes that have left the pending set
	full     fullness
	sendings sendings
	rebuilt  chan struct{} // closed when the index is complete
	// lastStamp is guarded by the store's order.
	lastStamp float64

	searching  sync.Mutex   // one search for the oldest entry at a time; taken before Readers
	searchPace pending.Pace // guarded by searching
}

// New returns the queue in a store that nothing else uses yet, with readers as the lock of what readers see.
func New(s *store.Store, readers *Readers, opts Options) *Queue {
	p := &Queue{
		Letters: newLetters(s), opts: opts, store: s, Readers: readers, index: pending.New(),
		receipts: &generations{store: s, most: opts.Receipts, logger: opts.Logger},
		full:     fullness{logger: opts.Logger},
		sendings: sendings{clock: opts.BootClock, turn: make(chan struct{}, 1), found: s.Totals().Pending > 0},
		rebuilt:  make(chan struct{}),
	}
	p.Receipts = &Receipts{queue: p}
	return p
}

// Load reads the dead letters, and how the receipts are kept. Nothing else uses the store meanwhile.
func (q *Queue) Load() error {
	if err := q.receipts.load(); err != nil {
		return err
	}
	return q.Letters.load()
}

// used returns the bytes of the budget that are in use. Lost versions do not count: they have their own room.
func (q *Queue) used(t record.Totals) int64 {
	return t.PendingBytes + int64(t.Pending)*(EntryBytes-record.Overhead) + t.DeadBytes // guard 3.5
}

// room returns an error if a write adds more bytes than the budget has left, or writes more bytes than
// the disk has free (contract 3). A write that adds nothing always fits the budget.
func (q *Queue) room(t record.Totals, adds, writes int64) error {
	if used := q.used(t); q.opts.MaxBytes > 0 && adds > 0 && used+adds > q.opts.MaxBytes { // guard 3.1
		return fmt.Errorf("%w: pending writes and dead letters take %s of the %s that journal.max_bytes allows; it takes writes again when upstream has taken some of them, or dead letters are deleted",
			ErrFull, mebibytes(used), mebibytes(q.opts.MaxBytes))
	}
	if q.store.Low(writes) {
		return fmt.Errorf("%w: the disk, or this user's quota on it, has less than the %s free that journal.disk_reserve keeps (a free inode counts as 1 MiB: df, df -i); it takes writes again when there is room", ErrFull, mebibytes(q.opts.DiskReserve))
	}
	return nil
}

// fullShare is the divisor of Options.MaxBytes that bounds the pending writes of a full namespace.
const fullShare = 8

// roomIn returns an error if a put would have the pending writes of a full namespace take more than their share of the
// budget. grows is what the write adds to what they take.
func (q *Queue) roomIn(namespace string, op Op, grows int64) error {
	if op != Put || q.opts.MaxBytes == 0 || grows <= 0 || q.opts.Full == nil {
		return nil
	}
	q.Readers.RLock()
	taken := int64(0)
	if space := q.index.Space(namespace); space != nil {
		entries, bytes := space.Newest()
		taken = bytes + int64(entries)*(EntryBytes-record.Overhead)
	}
	q.Readers.RUnlock()
	if most := q.opts.MaxBytes / fullShare; taken+grows > most && q.opts.Full(namespace) { // guard 18.45
		return &NamespaceFullError{Namespace: namespace, Pending: taken, Most: most}
	}
	return nil
}

func mebibytes(n int64) string {
	if n < 1<<20 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// add adds a write that is not visible yet.
func (q *Queue) add(id ID, w *pending.Write) {
	q.Readers.Lock()
	defer q.Readers.Unlock()
	q.index.Add(id, w)
}

// show makes a durable write visible. The caller holds the readers' lock.
func (q *Queue) show(id ID, w *pending.Write, author string) {
	change := Change{ID: id, Seq: w.Seq, Written: true, Op: w.Op, Bytes: int(w.Bytes), Author: author}
	if replaced, ok := q.index.Show(w); ok {
		change.Ended = endingOf(&replaced, ReceiptSuperseded) // guard 13.29
		change.Ended.By = w.Seq
	}
	q.Readers.Changed(change)
}

// Latest returns the entry's newest pending write, visible or not; ok is false if there is none.
func (q *Queue) Latest(id ID) (v record.Pending, ok bool) {
	q.Readers.RLock()
	defer q.Readers.RUnlock()
	return q.index.Get(id).Latest()
}

// IsPending reports whether the entry has a pending write, visible or not.
func (q *Queue) IsPending(id ID) bool {
	_, ok := q.Latest(id)
	return ok
}

// IsComing reports whether the entry has a write that readers do not see yet.
func (q *Queue) IsComing(id ID) bool {
	q.Readers.RLock()
	defer q.Readers.RUnlock()
	return q.index.Get(id).Coming()
}

// Needs reports whether a version must stay for a pending write: it is the write that readers see, or a
// newer one. It must also stay while the index does not know the entry. The caller holds the readers'
// lock.
func (q *Queue) Needs(id ID, seq uint64) bool {
	if !q.index.Known(id) { // guard 3.44
		return true
	}
	e := q.index.Get(id)
	if _, waits := e.Latest(); !waits {
		return false
	}
	visible, ok := e.Visible()
	return !ok || seq >= visible.Seq // guard 3.39
}

// Visible returns the entry's pending write that readers see; ok is false if there is none.
func (q *Queue) Visible(id ID) (v record.Pending, ok bool, err error) {
	if err := q.FaultIn(id); err != nil {
		return v, false, err
	}
	q.Readers.RLock()
	defer q.Readers.RUnlock()
	v, ok = q.index.Get(id).Visible()
	return v, ok, nil
}

// Waits reports whether the entry has a pending write. The caller holds the readers' lock.
func (q *Queue) Waits(id ID) bool {
	_, ok := q.index.Get(id).Latest()
	return ok
}
