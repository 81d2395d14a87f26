package journal

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
)

// copies keeps the settled copies of entries, and the listings.
type copies struct {
	store   *store.Store
	readers *readersLock
	pending *pendingSet
	logger  *slog.Logger

	// stripes are the copies locks. Each namespace belongs to one stripe. Only the holder of its lock
	// changes the namespace's copies and listing; but an eviction removes copies without it.
	stripes [copiesLocks]stripe
	seed    maphash.Seed
	// notDurable has an open channel for each entry (or listing, with an empty key) whose settled copy
	// was replaced and is not durable yet. Readers wait for the channel, so that no answer shows a
	// state that a power cut could undo (contract 7). Guarded by readers.
	notDurable map[ID]chan struct{}

	trust  *Trust
	losses *losses
	// engineSeen is Options.Seen.
	engineSeen func() []byte
	seen       seen         // confirmations and reads that the disk does not record
	written    atomic.Int64 // bytes of copies written since the last measurement
	unnamed    atomic.Int64 // bytes of versions that copies have ceased to name, as far as they are known
	measured   atomic.Int64 // bytes of copies at the last measurement; 0 before the first one
	forgotten  forgotten    // of the history
	// removals counts the changes that remove versions, from 1 on. It changes in the store's order.
	removals atomic.Int64
}

// copiesLocks bounds how many namespaces can change their copies at the same time.
const copiesLocks = 64

type stripe struct {
	sync.Mutex
	// observers are the listings in flight, by namespace. Commit merges every write that settles
	// meanwhile into them (contract 8).
	observers map[string][]*ListingFill
}

func newCopies(s *store.Store, readers *readersLock, logger *slog.Logger) *copies {
	c := &copies{
		store: s, readers: readers, logger: logger, seed: maphash.MakeSeed(), notDurable: make(map[ID]chan struct{}),
	}
	c.removals.Store(1)
	c.trust = &Trust{copies: c, logger: logger}
	return c
}

func (c *copies) stripe(namespace string) *stripe {
	return &c.stripes[maphash.String(c.seed, namespace)%copiesLocks]
}

// lock takes the namespace's copies lock. The first call of the returned function releases it.
func (c *copies) lock(namespace string) (unlock func()) {
	s := c.stripe(namespace)
	s.Lock()
	return sync.OnceFunc(s.Unlock)
}

type settledCopy struct {
	Observation
	confirmedAt float64
	version     uint64 // the number of the version with the value; 0 without an intact copy
	removals    int64  // copies.removals before the version was read
	kept        bool   // a record exists
	intact      bool   // the record and the value can be read
	recalled    bool   // there is no copy that can be read: see copies.last
	gone        bool   // it is recalled, and its value is gone
}

// read reads an entry's settled copy. A damaged one counts as kept and not intact.
func (c *copies) read(id ID) (settledCopy, error) {
	for gone := uint64(0); ; {
		found, err := c.readHead(id)
		if err != nil || found.version == 0 {
			return found, err
		}
		v, stored, err := readVersion(c.store.DB(), id, found.version)
		switch {
		case err == nil && stored:
			found.Value, found.Author, found.Host = v.Value, v.Author, v.Host
			return found, nil
		case err == nil && found.version != gone:
			gone = found.version // removed or replaced since the copy was read
			continue
		case err == nil:
			err = fmt.Errorf("%w: version %d is missing", ErrCorrupt, gone)
		}
		damaged, err := c.giveUp(fmt.Errorf("settled copy of %s: %w", id, err))
		return settledCopy{kept: damaged}, err
	}
}

// readHead reads an entry's settled copy without its value.
func (c *copies) readHead(id ID) (found settledCopy, err error) {
	found.removals = c.removals.Load()
	found.kept, err = store.Get(c.store.DB(), record.EntryKey(record.SettledPrefix, id), func(body []byte) (err error) {
		found.Observation, found.confirmedAt, found.version, err = record.DecodeSettled(body)
		return err
	})
	if err != nil {
		damaged, err := c.giveUp(fmt.Errorf("settled copy of %s: %w", id, err))
		return settledCopy{kept: damaged}, err
	}
	found.intact = found.kept
	return found, nil
}

// versionOf returns the number of the version that holds a value, if it is the copy's; otherwise 0. The
// caller is in the store's order.
func (c *copies) versionOf(past *settledCopy, value string) uint64 {
	if past.intact && past.Value == value && past.removals == c.removals.Load() { // guard 3.41
		return past.version
	}
	return 0
}

// lookAgain looks for the version of a copy that is about to go, if versions were removed since the copy was read: only one that
// is there can be gone. The caller is in the store's order, and has changed nothing in tx yet.
func (c *copies) lookAgain(tx *store.Tx, id ID, past *settledCopy) error {
	removals := c.removals.Load()
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
	return ignoreDamage(err)
}

// newerThan reports whether the state is another one than upstream shows, and newer.
func (s *settledCopy) newerThan(o *Observation) bool {
	return (s.intact && s.Value != o.Value || s.gone) && s.IsAfter(o)
}

// unname counts the version of a copy that is removed, or replaced by one with another value.
func (c *copies) unname(past *settledCopy) {
	c.unnamed.Add(int64(max(len(past.Value), past.ListBytes)))
}

// timeOf returns updated_at for a copy: upstream's time, but never earlier than the time that readers
// have seen (contract 19). With Options.Exact, it returns upstream's time unchanged. That time
// identifies the copy's version; a later one would make the copy pass for a newer version.
func timeOf(c *copies, at, seen float64) float64 {
	if c.pending.exact {
		return at
	}
	return max(at, seen)
}

// head returns an entry's settled copy without its value, or zero if there is no copy.
func (c *copies) head(id ID) (Observation, error) {
	found, err := c.readHead(id)
	return found.Observation, err
}

// state returns the State of an entry without a pending write.
func (c *copies) state(id ID) (State, error) {
	found, err := c.read(id)
	if err != nil {
		return State{}, err
	}
	if !found.intact {
		return c.stateByListing(id)
	}
	noted := c.seen.use(id, unixNow())
	state := settledState(found.Observation, max(found.confirmedAt, noted.confirmedAt))
	state.Outdated, err = c.isOvertaken(id, &found.Observation)
	return state, err
}

// isOvertaken reports whether upstream has listed a later state of an entry, which another host made.
func (c *copies) isOvertaken(id ID, o *Observation) (bool, error) {
	row, _, err := c.row(record.RowKey(id.Namespace, id.Key), id.Key)
	return row.Origin.Overtakes(o.Origin), err
}

// stateByListing returns the State of an entry without a pending write and without a readable settled
// copy. If a complete listing lacks the entry, upstream does not hold it: every write that settles and
// every answer from upstream updates the listing.
//
// stateByListing reads the header and the row from one snapshot. Otherwise an incomplete listing could
// replace a complete one between the two reads.
func (c *copies) stateByListing(id ID) (state State, err error) {
	listing := ID{Namespace: id.Namespace}
	snapshot := c.snapshot(listing)
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	h, listed, _, err := readListed(c, snapshot, id)
	if err != nil || listed || !h.Complete || h.FetchedAt == 0 { // guard 9.18
		return State{Listed: listed}, err
	}
	noted := c.seen.use(listing, unixNow())
	return State{Kind: Absent, ConfirmedAt: fromUnix(max(h.FetchedAt, noted.confirmedAt))}, nil // guard 9.20
}

// durableState returns the State of an entry without a pending write. If the copy is not durable yet,
// it waits; then done is false, and the caller looks again.
func (c *copies) durableState(id ID) (state State, done bool, err error) {
	if durable := c.hidden(id); durable != nil {
		<-durable
		return State{}, false, nil
	}
	state, err = c.state(id)
	if err != nil {
		return State{}, false, err
	}
	return state, c.hidden(id) == nil, nil
}

func settledState(o Observation, confirmedAt float64) State {
	return State{
		Kind: Settled, Value: o.Value, ListBytes: o.ListBytes, Author: o.Author,
		CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt, ConfirmedAt: fromUnix(confirmedAt),
		WrittenAs: o.Origin.Seq, // guard 5.9
		MadeAt:    o.MadeAt,
	}
}

// giveUp reports whether err is damage to a copy. A damaged copy counts as
// missing, because upstream can be asked again (contract 4). giveUp returns any other error.
func (c *copies) giveUp(err error) (damaged bool, _ error) {
	if c.store.Damaged(err) {
		return true, nil
	}
	return false, err
}

// set adds an entry's settled copy, confirmed at the given Unix time, to a batch. version is the number
// of the version with the copy's value; if it is 0, set adds the version.
func (c *copies) set(tx *store.Tx, id ID, o *Observation, confirmedAt float64, version uint64) {
	if version == 0 {
		version = tx.TakeSeq()
		tx.SetVersion(id, version, &record.Version{
			Op: Put, Shown: true, At: o.UpdatedAt, Author: o.Author, Host: o.Host, ListBytes: int32(o.ListBytes), Value: o.Value,
		})
	}
	key := record.EntryKey(record.SettledPrefix, id)
	head := record.EncodeSettled(key, o, confirmedAt, version)
	tx.Set(key, head)
	c.setNewest(tx, id, o, confirmedAt, version)
	c.keepSeen(tx)
	c.written.Add(int64(len(key) + len(head) + record.VersionKeySize(id) + len(o.Value)))
}

// byUpstream is the author of the version that upstream does not hold an entry.
const byUpstream = "upstream"

// gone removes an entry's settled copy, and adds the version that upstream does not hold the entry. at is
// when that began, in Unix seconds, as far as the journal knows.
func (c *copies) gone(tx *store.Tx, id ID, past *settledCopy, at float64) {
	c.giveWay(tx, id, past)
	c.dropNewest(tx, id)
	c.keepSeen(tx)
	tx.SetVersion(id, tx.TakeSeq(), &record.Version{Op: Delete, Shown: true, At: at, Author: byUpstream})
}

// giveWay removes an entry's settled copy, which upstream has ceased to hold. Its version stays in the history, in room of
// its own.
func (c *copies) giveWay(tx *store.Tx, id ID, past *settledCopy) {
	tx.Delete(record.EntryKey(record.SettledPrefix, id))
	if version := c.versionOf(past, past.Value); version != 0 { // guard 9.99
		c.losses.add(tx, id, version, past.Value, record.Loss{Gone: true, At: unixNow()})
	} else {
		c.unname(past)
	}
}

// boundLosses removes the oldest losses beyond their room.
func (c *copies) boundLosses() error {
	return c.losses.bound(func(bytes int64) { c.unnamed.Add(bytes) })
}

// keepSeen adds to a batch with a confirmed state what upstream's engine has seen.
func (c *copies) keepSeen(tx *store.Tx) {
	if c.engineSeen == nil {
		return
	}
	if seen := c.engineSeen(); len(seen) > 0 {
		tx.Set(record.SeenKey, record.EncodeSeen(seen)) // guard 9.88
	}
}

// Seen returns what Options.Seen had returned when upstream last confirmed a state; nil if nothing is kept.
func (j *Journal) Seen() (seen []byte, err error) {
	if err := j.store.Acquire(); err != nil {
		return nil, err
	}
	defer j.store.Release()
	_, err = store.Get(j.store.DB(), record.SeenKey, func(body []byte) error {
		seen = bytes.Clone(body)
		return nil
	})
	return seen, ignoreDamage(err)
}

// hide makes readers of the given entries and listings wait until the caller calls the returned
// function. The caller holds the readers' lock.
func (c *copies) hide(ids ...ID) (reveal func()) {
	durable := make(chan struct{})
	for _, id := range ids {
		c.notDurable[id] = durable
	}
	return func() {
		c.readers.Lock()
		defer c.readers.Unlock()
		for _, id := range ids {
			if c.notDurable[id] == durable {
				delete(c.notDurable, id)
			}
		}
		close(durable)
	}
}

// hiding is embedded in a change that the store applies before the change is durable. Readers wait
// meanwhile: see [copies.hide].
type hiding struct {
	revealed func() // nil while no reader waits
}

// Durable does nothing: Applied has already shown the change.
func (*hiding) Durable() {}

func (h *hiding) reveal() {
	if h.revealed != nil {
		h.revealed()
	}
}

// hidden returns the channel that readers of an entry's copy, or of a listing, wait for, or nil if they
// need not wait.
func (c *copies) hidden(id ID) <-chan struct{} {
	c.readers.RLock()
	defer c.readers.RUnlock()
	if durable, ok := c.notDurable[id]; ok {
		return durable
	}
	return nil
}

// snapshot waits until the namespace's listing is durable, and returns a snapshot that contains it.
func (c *copies) snapshot(listing ID) *pebble.Snapshot {
	for {
		c.readers.RLock()
		durable := c.notDurable[listing]
		if durable == nil {
			defer c.readers.RUnlock()
			return c.store.Snapshot()
		}
		c.readers.RUnlock()
		<-durable
	}
}
