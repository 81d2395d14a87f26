package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

const (
	// copiesChunk is the number of copies that one change removes.
	copiesChunk = 1024
	// evictTo is the percentage of the budget that an eviction leaves in use. One measurement and one
	// compaction then free the rest.
	evictTo = 80
	// evictFrom is the percentage of the budget at which an eviction starts. At 100, every few new
	// copies would cost another measurement, which reads all copies.
	evictFrom = 95
	// evictSamples bounds how many copies are sampled to find the age limit. With fewer copies, the
	// result is exact.
	evictSamples = 1 << 16
)

// copyOnDisk is a settled copy, or a listing (with an empty key), found in a pass over the disk.
type copyOnDisk struct {
	id   ID
	size int64   // bytes of its records
	used float64 // Unix seconds: when it was last written, confirmed or read
}

// evictor removes settled copies and listings. Upstream can be asked for them again.
type evictor struct {
	copies  *copies
	pending *pendingSet
	budget  int64 // 0 means no bound
	// notBefore delays the next pass after one that could not remove enough: entries with a pending
	// write keep their copies.
	notBefore time.Time
}

// evictAgain is the pause after a pass that could not remove enough.
const evictAgain = time.Minute

// bound keeps the settled copies and listings within their budget. It reports whether it removed any.
func (e *evictor) bound(ctx context.Context) (removed bool, err error) {
	budget := e.budget
	if budget == 0 || time.Now().Before(e.notBefore) {
		return false, nil
	}
	measured := e.copies.measured.Load()
	if measured == 0 {
		usage, err := e.usage()
		if err != nil || usage+e.copies.written.Load() < budget*evictTo/100 {
			return false, err // the copies cannot exceed the budget yet
		}
	} else if measured+e.copies.written.Load() <= budget { // guard 3.18
		return false, nil
	}
	return e.evict(ctx, budget)
}

// usage returns how many bytes the tables of copies, listings and versions take on disk, with the versions
// of pending writes.
func (e *evictor) usage() (sum int64, err error) {
	for _, prefix := range []string{record.SettledPrefix, record.VersionPrefix, record.HeaderPrefix, record.RowPrefix} {
		n, usageErr := e.copies.store.Usage(prefix)
		sum, err = sum+n, errors.Join(err, usageErr)
	}
	return sum, err
}

// evict measures the copies. If they exceed evictFrom percent of the budget, it removes the least
// recently used ones, down to evictTo percent.
func (e *evictor) evict(ctx context.Context, budget int64) (removed bool, err error) {
	e.copies.written.Store(0)
	var sample sampler
	err = e.visitCopies(ctx, func(batch []copyOnDisk) error {
		for _, c := range batch {
			sample.add(c)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	e.copies.measured.Store(sample.size)
	if sample.size <= budget*evictFrom/100 { // guard 3.24
		return false, nil
	}
	limit := sample.usedSince(budget * evictTo / 100)
	count, size := 0, int64(0)
	err = e.visitCopies(ctx, func(batch []copyOnDisk) error {
		old := slices.DeleteFunc(batch, func(c copyOnDisk) bool { return c.used >= limit })
		if len(old) == 0 {
			return nil
		}
		r := &removal{evictor: e, of: old, unlock: func() {}}
		if listing := old[0].id; listing.Key == "" {
			r.unlock = e.copies.lock(listing.Namespace) // guard 10.15
		}
		defer r.unlock()
		err := e.copies.store.Update(r) // guard 10.16
		count, size = count+r.removed, size+r.bytes
		return err
	})
	e.copies.measured.Add(-size)
	if e.copies.measured.Load() > budget {
		e.notBefore = time.Now().Add(evictAgain)
	}
	if count == 0 {
		return false, err
	}
	e.copies.logger.Info("settled copies that were not used lately are removed", "copies", count, "bytes", size)
	return true, err
}

// visitCopies calls visit for the settled copies in chunks, and for each listing alone. visit may
// change the chunk.
func (e *evictor) visitCopies(ctx context.Context, visit func(chunk []copyOnDisk) error) (err error) {
	snapshot := e.copies.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if err := e.visitSettled(ctx, snapshot, visit); err != nil {
		return err
	}
	return e.visitListings(ctx, snapshot, visit) // guard 3.20
}

func (e *evictor) visitSettled(ctx context.Context, r pebble.Reader, visit func([]copyOnDisk) error) (err error) {
	versions, err := store.NewVersions(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, versions.Close()) }()
	chunk := make([]copyOnDisk, 0, copiesChunk)
	prefix := []byte(record.SettledPrefix)
	err = store.Each(r, prefix, record.After(prefix), func(key, value []byte) error {
		id, err := record.ParseEntryKey(record.SettledPrefix, key)
		if err != nil {
			return nil //nolint:nilerr // a damaged key: nobody reads its copy
		}
		found := copyOnDisk{id: id, size: int64(len(key) + len(value))}
		// A damaged copy counts as the oldest.
		if body, err := record.Unseal(key, value); err == nil {
			_, used, version, _ := record.DecodeSettled(body)
			if version != 0 {
				value, _ := versions.Find(id, version) // a damaged one takes no room once it is repaired
				found.size += int64(record.VersionKeySize(id) + len(value))
			}
			found.used = max(used, e.copies.seen.get(id).last()) // guard 3.19
		}
		if chunk = append(chunk, found); len(chunk) < copiesChunk {
			return nil
		}
		err = errors.Join(ctx.Err(), visit(chunk))
		chunk = chunk[:0]
		return err
	})
	if err != nil || len(chunk) == 0 {
		return err
	}
	return visit(chunk)
}

// visitListings visits each listing in a chunk of its own.
func (e *evictor) visitListings(ctx context.Context, r pebble.Reader, visit func([]copyOnDisk) error) error {
	prefix := []byte(record.HeaderPrefix)
	return store.Each(r, prefix, record.After(prefix), func(key, value []byte) error {
		namespace := string(key[len(prefix):])
		listing := ID{Namespace: namespace}
		found := copyOnDisk{id: listing, size: int64(len(key) + len(value))}
		if body, err := record.Unseal(key, value); err == nil {
			h, _ := record.DecodeHeader(body)
			found.used = max(h.FetchedAt, e.copies.seen.get(listing).last())
		}
		rows := record.Within(record.RowPrefix, namespace)
		err := store.Each(r, rows, record.After(rows), func(key, value []byte) error {
			found.size += int64(len(key) + len(value))
			return nil
		})
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return visit([]copyOnDisk{found})
	})
}

// removal removes some settled copies, or one listing.
type removal struct {
	*evictor
	of     []copyOnDisk
	unlock func() // releases the copies lock, if this change holds it
	byHand bool   // a person has asked for it: also in suspect namespaces

	removed int
	bytes   int64
}

// Fill removes the copies. It leaves those of suspect namespaces unless byHand is set, and those of
// entries with a pending write, which takes its created_at from the copy.
func (r *removal) Fill(tx *store.Tx) error {
	r.pending.readers.RLock()
	defer r.pending.readers.RUnlock()
	for _, c := range r.of {
		switch {
		// guard 9.56
		case !r.byHand && r.copies.trust.isSuspect(c.id.Namespace): // upstream may not have it any more
			continue
		case c.id.Key == "":
			dropListing(tx, c.id.Namespace)
		case r.pending.waits(c.id): // guard 19.10
			continue
		default:
			tx.Delete(record.EntryKey(record.SettledPrefix, c.id))
			r.copies.unnamed.Add(c.size)
		}
		r.removed, r.bytes = r.removed+1, r.bytes+c.size
	}
	return nil
}

// Applied releases the copies lock. The next holder may update the listing, and must find the removed
// one gone.
func (r *removal) Applied() { r.unlock() }

// Durable does nothing: there is nothing left to show.
func (*removal) Durable() {}

// dropAll removes the settled copies, except those of suspect namespaces and of entries with a pending
// write, and then the versions that neither a copy nor a pending write needs. It returns the number of
// bytes that it has removed.
func (e *evictor) dropAll(ctx context.Context) (removed int64, err error) {
	copied := &rangeRemoval{evictor: e, prefix: []byte(record.SettledPrefix)}
	err = copied.run(ctx)
	if err != nil {
		return copied.bytes, err
	}
	versions := &rangeRemoval{evictor: e, prefix: []byte(record.VersionPrefix)}
	err = versions.run(ctx)
	return copied.bytes + versions.bytes, err
}

// rangeRemoval removes the copies or versions under a prefix, some at a time, and neighbours as one range:
// under disk pressure, one record for each would take too much room.
type rangeRemoval struct {
	*evictor
	prefix []byte
	// byHand is not 0 if a person has asked for it, also in suspect namespaces. Later versions stay.
	byHand uint64

	from    []byte // where to continue; nil at the end
	gone    []ID   // the entries of the present change
	records int
	bytes   int64
}

func (r *rangeRemoval) run(ctx context.Context) error {
	for r.from = r.prefix; r.from != nil; {
		if err := errors.Join(r.copies.store.Update(r), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// droppedBytes bounds the bytes that one change reads in the order of all writes, because writers wait
// meanwhile.
const droppedBytes = 1 << 20

// Fill removes the next records.
func (r *rangeRemoval) Fill(tx *store.Tx) error {
	reader, err := tx.Reader()
	if err != nil {
		return err
	}
	from := r.from
	r.from, r.gone = nil, nil
	var keys [][]byte
	var sizes []int
	var times []float64 // of versions
	var read int
	err = store.Each(reader, from, record.After(r.prefix), func(key, value []byte) error {
		if read += len(value); len(keys) == droppedAtOnce || read > droppedBytes && len(keys) > 0 {
			r.from = bytes.Clone(key)
			return errEnough
		}
		keys, sizes = append(keys, bytes.Clone(key)), append(sizes, len(key)+len(value))
		times = append(times, record.WrittenAt(value))
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	newest := 0.0 // of the removed versions
	named := make([]bool, len(keys))
	if isVersion(r.prefix) {
		copies := namedVersions{reader: reader}
		for i, key := range keys {
			if id, seq, err := record.ParseVersionKey(key); err == nil {
				of, err := copies.of(id)
				named[i] = err != nil || of == seq // guard 3.42
			}
		}
	}
	r.pending.readers.RLock()
	defer r.pending.readers.RUnlock()
	for begin, end := 0, 0; end <= len(keys); end++ {
		if end < len(keys) && !named[end] && !r.stays(keys[end]) {
			r.records++
			r.bytes, newest = r.bytes+int64(sizes[end]), max(newest, times[end])
			continue
		}
		if begin < end {
			tx.DeleteSpan(keys[begin], append(keys[end-1], 0))
			r.copies.removals.Add(1)
		}
		begin = end + 1
	}
	if r.byHand == 0 && isVersion(r.prefix) {
		r.copies.forgotten.add(tx, newest)
	}
	return nil
}

// Durable tells nobody: a reader asks upstream again, and no answer changes. A removal by hand makes
// answers of before outdated.
func (r *rangeRemoval) Durable() {
	for _, id := range r.gone {
		r.pending.readers.changed(Change{ID: id})
	}
}

func isVersion(key []byte) bool { return bytes.HasPrefix(key, []byte(record.VersionPrefix)) }

// stays reports whether a copy stays, or a version that no copy names. The caller holds the readers' lock.
func (r *rangeRemoval) stays(key []byte) bool {
	var id ID
	var seq uint64
	var err error
	version := isVersion(key)
	if version {
		id, seq, err = record.ParseVersionKey(key)
	} else {
		id, err = record.ParseEntryKey(record.SettledPrefix, key)
	}
	switch {
	case err != nil:
		return false
	case version && (r.pending.needs(id, seq) || r.byHand != 0 && seq > r.byHand): // guard 13.36
		return true
	case !version && (r.pending.waits(id) || r.byHand == 0 && r.copies.trust.isSuspect(id.Namespace)): // guard 19.11, 9.57
		return true
	}
	if r.byHand != 0 && (len(r.gone) == 0 || r.gone[len(r.gone)-1] != id) {
		r.gone = append(r.gone, id)
	}
	return false
}

// waits reports whether the entry has a pending write. The caller holds the readers' lock.
func (p *pendingSet) waits(id ID) bool {
	_, ok := p.index.Get(id).Latest()
	return ok
}

// sampler estimates the ages of all copies from a sample.
type sampler struct {
	size  int64 // bytes of all copies
	seen  int
	every int // one in this many copies is sampled
	kept  []copyOnDisk
}

func (s *sampler) add(c copyOnDisk) {
	s.size += c.size
	s.every = max(1, s.every)
	if s.seen++; s.seen%s.every != 0 {
		return
	}
	s.kept = append(s.kept, copyOnDisk{size: c.size, used: c.used})
	if len(s.kept) < evictSamples {
		return
	}
	half := s.kept[:0]
	for i := 0; i < len(s.kept); i += 2 {
		half = append(half, s.kept[i])
	}
	s.kept, s.every = half, 2*s.every
}

// usedSince returns the earliest time such that the copies used since then fit into the budget.
func (s *sampler) usedSince(budget int64) float64 {
	slices.SortFunc(s.kept, func(a, b copyOnDisk) int { return cmp.Compare(b.used, a.used) })
	total := int64(0)
	for i, c := range s.kept {
		if total += c.size * int64(s.every); total > budget {
			if i == 0 {
				return math.Inf(1)
			}
			return s.kept[i-1].used
		}
	}
	return 0
}
