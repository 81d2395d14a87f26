package journal

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/bootclock"
	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/entries"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
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

	opts    Options
	store   *store.Store
	queue   *queue.Queue
	entries *entries.Entries
	purges  chan struct{} // holds a token while a purge runs
}

// Subscribe makes the journal call notify after every change to the known state of an entry. notify
// runs under the readers' lock: it must be quick and must not call the journal. There is one
// subscriber. It subscribes before calling any other method except [Journal.Holdings], so that it
// misses no change.
func (j *Journal) Subscribe(notify func(Change)) { j.queue.Readers.Subscribe(notify) }

// Close waits for the calls in flight and closes the store. Acknowledged writes are durable with or
// without it. Later calls return [ErrClosed], or an answer from memory.
func (j *Journal) Close() error { return j.store.Close() }

// Err says why the journal takes no writes: see [queue.Queue.Err].
func (j *Journal) Err() error { return j.queue.Err() }

// Full says since when the journal refuses writes, and why: see [queue.Queue.Full].
func (j *Journal) Full() (since time.Time, why error) { return j.queue.Full() }

// Rebuilt returns a channel that is closed when the pending index is complete.
func (j *Journal) Rebuilt() <-chan struct{} { return j.queue.Rebuilt() }

// Newest returns the entry's pending write, to send upstream: see [queue.Queue.Newest].
func (j *Journal) Newest(id ID) (w Write, ok bool, err error) { return j.queue.Newest(id) }

// VisitPending visits the pending writes of a namespace: see [queue.Queue.VisitPending].
func (j *Journal) VisitPending(namespace string, visit func(Pending)) error {
	return j.queue.VisitPending(namespace, visit)
}

// PendingList returns the writes that have waited longest: see [queue.Queue.PendingList].
func (j *Journal) PendingList(namespace string, limit int) []Pending {
	return j.queue.PendingList(namespace, limit)
}

// MaySend says whether the disk can take the outcome of a request: see [queue.Queue.MaySend].
func (j *Journal) MaySend() error { return j.queue.MaySend() }

// BeginSending comes before the first request: see [queue.Queue.BeginSending].
func (j *Journal) BeginSending() error { return j.queue.BeginSending() }

// EndSending comes after the last answer: see [queue.Queue.EndSending].
func (j *Journal) EndSending() error { return j.queue.EndSending() }

// LastSending tells of the requests of an earlier process: see [queue.Queue.LastSending].
func (j *Journal) LastSending() (ago time.Duration, ok bool, err error) { return j.queue.LastSending() }

// MarkSent records that a write is being sent: see [queue.Queue.MarkSent].
func (j *Journal) MarkSent(w Write) (before bool, err error) { return j.queue.MarkSent(w) }

// UnmarkSent takes back that a write was sent: see [queue.Queue.UnmarkSent].
func (j *Journal) UnmarkSent(w Write) error { return j.queue.UnmarkSent(w) }

// Left returns what requests may have left upstream: see [queue.Queue.Left].
func (j *Journal) Left(w Write) (left []Content, known bool, err error) {
	return j.queue.Left(w)
}

// DeadLetters lists dead letters: see [queue.Queue.DeadLetters].
func (j *Journal) DeadLetters(after uint64, limit int) ([]DeadLetter, error) {
	return j.queue.DeadLetters(after, limit)
}

// ReadDeadLetter returns a dead letter: see [queue.Queue.ReadDeadLetter].
func (j *Journal) ReadDeadLetter(seq uint64) (DeadLetter, error) {
	return j.queue.ReadDeadLetter(seq)
}

// Discard removes a dead letter: see [queue.Queue.Discard].
func (j *Journal) Discard(seq uint64) error { return j.queue.Discard(seq) }

// Fill records upstream's answer: see [entries.Entries.Fill].
func (j *Journal) Fill(id ID, o *Observation, valid func() bool, options ...entries.FillOption) (State, error) {
	return j.entries.Fill(id, o, valid, options...)
}

// Listing returns the listing of a namespace: see [entries.Entries.Listing].
func (j *Journal) Listing(namespace string, most int) (l Listing, ok bool, err error) {
	return j.entries.Listing(namespace, most)
}

// BeginListing begins to take upstream's listing: see [entries.Entries.BeginListing].
func (j *Journal) BeginListing(namespace string) *ListingFill {
	return j.entries.BeginListing(namespace)
}

// Seen returns what upstream's engine had seen: see [entries.Entries.Seen].
func (j *Journal) Seen() (seen []byte, err error) { return j.entries.Seen() }

// Rename records that upstream calls a namespace otherwise: see [entries.Entries.Rename].
func (j *Journal) Rename(namespace string) error { return j.entries.Rename(namespace) }
