package entries

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// Options configures the entries.
type Options struct {
	// CopiesBytes bounds the settled copies and listings, and HistoryBytes the history, in bytes; 0 means no bound.
	CopiesBytes, HistoryBytes int64
	// MaxBytes is the queue's budget in bytes; 0 means no bound. Versions that are lost may take an eighth of that, in
	// addition to it.
	MaxBytes int64
	// Exact says that upstream carries out a write only over the version that the write is based on.
	Exact bool
	// Named reports whether the versions of a namespace upstream name the time of their write. It may be nil.
	Named func(namespace string) bool
	// Seen returns what upstream's engine has seen so far. It may be nil.
	Seen func() []byte
	// LossLimit bounds how many confirmed entries of a namespace upstream may lack at once.
	LossLimit LossLimit
	// AwaitRoom is called while a migration lacks room: see [store.Options].
	AwaitRoom func(needed int64) error
	Logger    *slog.Logger
}

// Entries holds what is known of entries: the settled copies, the listings, and the versions of the history. Its methods
// may be called concurrently. Those that the journal passes on acquire the store themselves; the caller of any other one that
// reads or changes the store has acquired it, but for [Entries.Retire].
type Entries struct {
	Trust    *Trust
	Fence    *Fence
	Keys     *Keys
	Listings *Listings
	History  *History
	Disk     *Disk

	opts    Options
	store   *store.Store
	readers *queue.Readers
	queue   *queue.Queue
	logger  *slog.Logger

	// stripes are the copies locks. Each namespace belongs to one stripe. Only the holder of its lock
	// changes the namespace's copies and listing; but an eviction removes copies without it.
	stripes [copiesLocks]stripe
	seed    maphash.Seed

	losses    *losses
	retention retention
	seen      seen         // confirmations and reads that the disk does not record
	written   atomic.Int64 // bytes of copies written since the last measurement
	unnamed   atomic.Int64 // bytes of versions that copies have ceased to name, as far as they are known
	measured  atomic.Int64 // bytes of copies at the last measurement; 0 before the first one
	forgotten forgotten    // of the history
}

// copiesLocks bounds how many namespaces can change their copies at the same time.
const copiesLocks = 64

type stripe struct {
	sync.Mutex
	// observers are the listings in flight, by namespace. Commit merges every write that settles
	// meanwhile into them (contract 8).
	observers map[string][]*ListingFill
}

// New returns the entries in a store that nothing else uses yet.
func New(s *store.Store, q *queue.Queue, opts Options) *Entries {
	c := &Entries{
		opts: opts, store: s, queue: q, readers: q.Readers, logger: opts.Logger, seed: maphash.MakeSeed(),
		losses: newLosses(s, opts.MaxBytes), retention: retention{measured: -1},
	}
	c.Trust = &Trust{entries: c, lossLimit: opts.LossLimit, logger: opts.Logger}
	c.History = &History{entries: c}
	c.Fence = &Fence{entries: c}
	c.Keys = &Keys{entries: c}
	c.Listings = &Listings{entries: c, bytes: make(map[string]int64)}
	c.Disk = &Disk{entries: c}
	return c
}

// Load reads what the entries keep in memory, and migrates what an older botwired has written. Nothing else uses the store
// meanwhile.
func (e *Entries) Load() error {
	for _, load := range []func() error{
		e.losses.load,
		func() error { return migrateConflicts(e.store, e.losses, e.opts.AwaitRoom) }, // guard 21.17
		e.Trust.recall,
		func() error { return e.forgotten.load(e.store.DB()) },
	} {
		if err := load(); err != nil {
			return err
		}
	}
	return nil
}

func (e *Entries) stripe(namespace string) *stripe {
	return &e.stripes[maphash.String(e.seed, namespace)%copiesLocks]
}

// Lock takes the namespace's copies lock. The first call of the returned function releases it.
func (e *Entries) Lock(namespace string) (unlock func()) {
	s := e.stripe(namespace)
	s.Lock()
	return sync.OnceFunc(s.Unlock)
}

// TryLock does the same, if nobody holds the lock; otherwise ok is false, and unlock does nothing.
func (e *Entries) TryLock(namespace string) (unlock func(), ok bool) {
	s := e.stripe(namespace)
	if !s.TryLock() {
		return func() {}, false
	}
	return sync.OnceFunc(s.Unlock), true
}

type settledCopy struct {
	Observation
	confirmedAt float64
	version     uint64 // the number of the version with the value; 0 without an intact copy
	removals    int64  // the store's Removals before the version was read
	kept        bool   // a record exists
	intact      bool   // the record and the value can be read
	recalled    bool   // there is no copy that can be read: see [Entries.last]
	gone        bool   // it is recalled, and its value is gone
}

// read reads an entry's settled copy. A damaged one counts as kept and not intact.
func (e *Entries) read(id ID) (settledCopy, error) {
	for gone := uint64(0); ; {
		found, err := e.readHead(id)
		if err != nil || found.version == 0 {
			return found, err
		}
		v, stored, err := store.ReadVersion(e.store.DB(), id, found.version)
		switch {
		case err == nil && stored:
			found.Value, found.Author, found.Host = v.Value, v.Author, v.Host
			return found, nil
		case err == nil && found.version != gone:
			gone = found.version // removed or replaced since the copy was read
			continue
		case err == nil:
			err = fmt.Errorf("%w: version %d is missing", record.ErrCorrupt, gone)
		}
		damaged, err := e.giveUp(fmt.Errorf("settled copy of %s: %w", id, err))
		return settledCopy{kept: damaged}, err
	}
}

// readHead reads an entry's settled copy without its value.
func (e *Entries) readHead(id ID) (found settledCopy, err error) {
	found.removals = e.store.Removals.Load()
	found.kept, err = store.Get(e.store.DB(), record.EntryKey(record.SettledPrefix, id), func(body []byte) (err error) {
		found.Observation, found.confirmedAt, found.version, err = record.DecodeSettled(body)
		return err
	})
	if err != nil {
		damaged, err := e.giveUp(fmt.Errorf("settled copy of %s: %w", id, err))
		return settledCopy{kept: damaged}, err
	}
	found.intact = found.kept
	return found, nil
}

// versionOf returns the number of the version that holds a value, if it is the copy's; otherwise 0. The
// caller is in the store's order.
func (e *Entries) versionOf(past *settledCopy, value string) uint64 {
	if past.intact && past.Value == value && past.removals == e.store.Removals.Load() { // guard 3.41
		return past.version
	}
	return 0
}

// lookAgain looks for the version of a copy that is about to go, if versions were removed since the copy was read: only one that
// is there can be gone. The caller is in the store's order, and has changed nothing in tx yet.
func (e *Entries) lookAgain(tx *store.Tx, id ID, past *settledCopy) error {
	removals := e.store.Removals.Load()
	if !past.intact || past.removals == removals { // guard 9.108
		return nil
	}
	r, err := tx.Reader()
	if err != nil {
		return err
	}
	kept, err := store.HoldsKey(r, record.VersionKey(id, past.version))
	if kept {
		past.removals = removals
	}
	return store.IgnoreDamage(err)
}

// newerThan reports whether the state is another one than upstream shows, and newer.
func (s *settledCopy) newerThan(o *Observation) bool {
	return (s.intact && s.Value != o.Value || s.gone) && s.IsAfter(o)
}

// unname counts the version of a copy that is removed, or replaced by one with another value.
func (e *Entries) unname(past *settledCopy) {
	e.unnamed.Add(int64(max(len(past.Value), past.ListBytes)))
}

// timeOf returns updated_at for a copy: upstream's time, but never earlier than the time that readers
// have seen (contract 19). With Options.Exact, it returns upstream's time unchanged. That time
// identifies the copy's version; a later one would make the copy pass for a newer version.
func timeOf(c *Entries, at, seen float64) float64 {
	if c.opts.Exact {
		return at
	}
	return max(at, seen)
}

// Head returns an entry's settled copy without its value; ok is false if there is none that can be read.
func (e *Entries) Head(id ID) (o Observation, ok bool, err error) {
	found, err := e.readHead(id)
	return found.Observation, found.intact, err
}

// state returns the State of an entry without a pending write.
func (e *Entries) state(id ID) (State, error) {
	found, err := e.read(id)
	if err != nil {
		return State{}, err
	}
	if !found.intact {
		return e.stateByListing(id)
	}
	noted := e.seen.use(id, store.UnixNow())
	state := settledState(found.Observation, max(found.confirmedAt, noted.confirmedAt))
	state.Outdated, err = e.isOvertaken(id, &found.Observation)
	return state, err
}

// isOvertaken reports whether upstream has listed a later state of an entry, which another host made.
func (e *Entries) isOvertaken(id ID, o *Observation) (bool, error) {
	row, _, err := e.row(record.RowKey(id.Namespace, id.Key), id.Key)
	return row.Origin.Overtakes(o.Origin), err
}

// stateByListing returns the State of an entry without a pending write and without a readable settled
// copy. If a complete listing lacks the entry, upstream does not hold it: every write that settles and
// every answer from upstream updates the listing.
//
// stateByListing reads the header and the row from one snapshot. Otherwise an incomplete listing could
// replace a complete one between the two reads.
func (e *Entries) stateByListing(id ID) (state State, err error) {
	listing := ID{Namespace: id.Namespace}
	snapshot := e.snapshot(listing)
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	h, listed, _, err := readListed(e, snapshot, id)
	if err != nil || listed || !h.Complete || h.FetchedAt == 0 { // guard 9.18
		return State{Listed: listed}, err
	}
	noted := e.seen.use(listing, store.UnixNow())
	return State{Kind: Absent, ConfirmedAt: store.Time(max(h.FetchedAt, noted.confirmedAt))}, nil // guard 9.20
}

// DurableState returns the State of an entry without a pending write. If the copy is not durable yet,
// it waits; then done is false, and the caller looks again.
func (e *Entries) DurableState(id ID) (state State, done bool, err error) {
	if durable := e.readers.Hidden(id); durable != nil {
		<-durable
		return State{}, false, nil
	}
	state, err = e.state(id)
	if err != nil {
		return State{}, false, err
	}
	return state, e.readers.Hidden(id) == nil, nil
}

func settledState(o Observation, confirmedAt float64) State {
	return State{
		Kind: Settled, Value: o.Value, ListBytes: o.ListBytes, Author: o.Author,
		CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt, ConfirmedAt: store.Time(confirmedAt),
		WrittenAs: o.Origin.Seq, // guard 5.9
		MadeAt:    o.MadeAt,
	}
}

// giveUp reports whether err is damage to a copy. A damaged copy counts as
// missing, because upstream can be asked again (contract 4). giveUp returns any other error.
func (e *Entries) giveUp(err error) (damaged bool, _ error) {
	if e.store.Damaged(err) {
		return true, nil
	}
	return false, err
}

// set adds an entry's settled copy, confirmed at the given Unix time, to a batch. version is the number
// of the version with the copy's value; if it is 0, set adds the version.
func (e *Entries) set(tx *store.Tx, id ID, o *Observation, confirmedAt float64, version uint64) {
	if version == 0 {
		version = tx.TakeSeq()
		tx.SetVersion(id, version, &record.Version{
			Op: Put, Shown: true, At: o.UpdatedAt, Author: o.Author, Host: o.Host, ListBytes: int32(o.ListBytes), Value: o.Value,
		})
	}
	key := record.EntryKey(record.SettledPrefix, id)
	head := record.EncodeSettled(key, o, confirmedAt, version)
	tx.Set(key, head)
	e.setNewest(tx, id, o, confirmedAt, version)
	e.keepSeen(tx)
	e.written.Add(int64(len(key) + len(head) + record.VersionKeySize(id) + len(o.Value)))
}

// byUpstream is the author of the version that upstream does not hold an entry.
const byUpstream = "upstream"

// gone removes an entry's settled copy, and adds the version that upstream does not hold the entry. at is
// when that began, in Unix seconds, as far as the journal knows.
func (e *Entries) gone(tx *store.Tx, id ID, past *settledCopy, at float64) {
	e.giveWay(tx, id, past)
	e.dropNewest(tx, id)
	e.keepSeen(tx)
	tx.SetVersion(id, tx.TakeSeq(), &record.Version{Op: Delete, Shown: true, At: at, Author: byUpstream})
}

// giveWay removes an entry's settled copy, which upstream has ceased to hold. Its version stays in the history, in room of
// its own.
func (e *Entries) giveWay(tx *store.Tx, id ID, past *settledCopy) {
	tx.Delete(record.EntryKey(record.SettledPrefix, id))
	if version := e.versionOf(past, past.Value); version != 0 { // guard 9.99
		e.losses.add(tx, id, version, past.Value, record.Loss{Gone: true, At: store.UnixNow()})
	} else {
		e.unname(past)
	}
}

// boundLosses removes the oldest losses beyond their room.
func (e *Entries) boundLosses() error {
	return e.losses.bound(func(bytes int64) { e.unnamed.Add(bytes) })
}

// keepSeen adds to a batch with a confirmed state what upstream's engine has seen.
func (e *Entries) keepSeen(tx *store.Tx) {
	if e.opts.Seen == nil {
		return
	}
	if seen := e.opts.Seen(); len(seen) > 0 {
		tx.Set(record.SeenKey, record.EncodeSeen(seen)) // guard 9.88
	}
}

// Seen returns what Options.Seen had returned when upstream last confirmed a state; nil if nothing is kept.
func (e *Entries) Seen() (seen []byte, err error) {
	if err := e.store.Acquire(); err != nil {
		return nil, err
	}
	defer e.store.Release()
	_, err = store.Get(e.store.DB(), record.SeenKey, func(body []byte) error {
		seen = bytes.Clone(body)
		return nil
	})
	return seen, store.IgnoreDamage(err)
}

// snapshot waits until the namespace's listing is durable, and returns a snapshot that contains it.
func (e *Entries) snapshot(listing ID) (s *pebble.Snapshot) {
	e.readers.WhenDurable(listing, func() { s = e.store.Snapshot() })
	return s
}
