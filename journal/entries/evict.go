package entries

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

const (
	// evictTo is the percentage of the budget that an eviction leaves in use. One measurement and one
	// compaction then free the rest.
	evictTo = 80
	// evictFrom is the percentage of the budget at which an eviction starts. At 100, every few new
	// copies would cost another measurement, which reads all copies.
	evictFrom = 95
	// evictSamples bounds how many copies are sampled to find the age limit. With fewer copies, the
	// result is exact.
	evictSamples = 1 << 16
	// keptWhenFull bounds, in bytes, the copies that stay on a nearly full disk: those used last. Without its
	// copy, a write that waits over a kill would take this host's own state upstream for another's (contract 17).
	keptWhenFull = 2 << 20 // less than what makes a pass worth while: see worthCompacting in maintain.go
)

// BoundCopies keeps the settled copies and listings within their budget. It reports whether it removed any: upstream can
// be asked for them again.
func (e *Entries) BoundCopies(ctx context.Context) (removed bool, err error) {
	budget := e.opts.CopiesBytes
	if budget == 0 {
		return false, nil
	}
	measured := e.measured.Load()
	if measured == 0 {
		usage, err := e.usage()
		if err != nil || usage+e.written.Load() < budget*evictTo/100 {
			return false, err // the copies cannot exceed the budget yet
		}
	} else if measured+e.written.Load() <= budget { // guard 3.18
		return false, nil
	}
	return e.Evict(ctx, budget)
}

// usage returns how many bytes the tables of copies, listings and versions take on disk, with the versions
// of pending writes.
func (e *Entries) usage() (sum int64, err error) {
	for _, kind := range record.Kinds {
		if kind.Class == record.Copied || kind.Prefix == record.VersionPrefix {
			n, usageErr := e.store.Usage(kind.Prefix)
			sum, err = sum+n, errors.Join(err, usageErr)
		}
	}
	return sum, err
}

// Evict measures the copies. If they exceed evictFrom percent of the budget, it removes the least
// recently used ones, down to evictTo percent.
func (e *Entries) Evict(ctx context.Context, budget int64) (removed bool, err error) {
	e.written.Store(0)
	var sample sampler
	err = e.visitSettled(ctx, sample.add)
	if err == nil { // guard 3.20
		err = e.visitListings(ctx, func(_ string, size int64, used float64) error { sample.add(size, used); return nil })
	}
	if err != nil {
		return false, err
	}
	e.measured.Store(sample.size)
	if sample.size <= budget*evictFrom/100 { // guard 3.24
		return false, nil
	}
	limit, kept := sample.usedSince(budget * evictTo / 100)
	e.measured.Store(kept)
	e.unnamed.Add(sample.size - kept)
	old := e.notUsedSince(limit)
	if err := old.run(ctx); err != nil {
		return old.records > 0, err
	}
	count := old.records
	err = e.visitListings(ctx, func(namespace string, _ int64, used float64) error {
		if used >= limit {
			return nil
		}
		dropped, err := e.DropListing(namespace)
		if dropped {
			count++
		}
		return err
	})
	if count > 0 {
		e.logger.Info("settled copies that were not used lately are removed", "copies", count, "bytes", sample.size-kept)
	}
	return count > 0, err
}

// notUsedSince removes the settled copies that were last used before a time.
func (e *Entries) notUsedSince(limit float64) *rangeRemoval {
	return &rangeRemoval{Entries: e, prefix: []byte(record.SettledPrefix), old: func(key, value []byte) bool {
		_, _, used := e.lastUse(key, value)
		return used < limit
	}}
}

// lastUse returns when a settled copy was last written, confirmed or read, and its version. A damaged copy
// counts as the oldest.
func (e *Entries) lastUse(key, value []byte) (id ID, version uint64, used float64) {
	id, err := record.ParseEntryKey(record.SettledPrefix, key)
	if err != nil {
		return id, 0, math.Inf(1) // nobody reads it
	}
	if body, err := record.Unseal(key, value); err == nil {
		_, used, version, _ = record.DecodeSettled(body)
		used = max(used, e.seen.get(id).last()) // guard 3.19
	}
	return id, version, used
}

// visitSettled calls visit with the size of each settled copy, in bytes with its version, and its last use.
func (e *Entries) visitSettled(ctx context.Context, visit func(size int64, used float64)) (err error) {
	r := e.store.DB()
	versions, err := store.NewVersions(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, versions.Close()) }()
	prefix := []byte(record.SettledPrefix)
	return store.Each(r, prefix, record.After(prefix), func(key, value []byte) error {
		id, version, used := e.lastUse(key, value)
		size := int64(len(key) + len(value))
		if version != 0 {
			value, _ := versions.Find(id, version) // a damaged one takes no room once it is repaired
			size += int64(record.VersionKeySize(id) + len(value))
		}
		visit(size, used)
		return ctx.Err()
	})
}

// visitListings calls visit with the size of each listing, in bytes, and its last use.
func (e *Entries) visitListings(ctx context.Context, visit func(namespace string, size int64, used float64) error) error {
	r, prefix := e.store.DB(), []byte(record.HeaderPrefix)
	return store.Each(r, prefix, record.After(prefix), func(key, value []byte) error {
		namespace := string(key[len(prefix):])
		size, used := int64(len(key)+len(value)), 0.0
		if body, err := record.Unseal(key, value); err == nil {
			h, _ := record.DecodeHeader(body)
			used = max(h.FetchedAt, e.seen.get(ID{Namespace: namespace}).last())
		}
		rows := record.Within(record.RowPrefix, namespace)
		err := store.Each(r, rows, record.After(rows), func(key, value []byte) error {
			size += int64(len(key) + len(value))
			return nil
		})
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return visit(namespace, size, used)
	})
}

// DropListing removes a listing, unless its namespace is suspect. The next holder of the copies lock may
// update the listing, and must find it gone.
func (e *Entries) DropListing(namespace string) (dropped bool, err error) {
	unlock := e.Lock(namespace) // guard 10.15
	defer unlock()
	if e.Trust.isSuspect(namespace) { // guard 9.56
		return false, nil
	}
	return true, e.store.Update(&earlyChange{ // guard 10.16
		ChangeFunc: func(tx *store.Tx) error {
			dropListing(tx, namespace)
			return nil
		},
		applied: unlock,
	})
}

// earlyChange is a change with something to do as soon as the store has it: see [store.Early].
type earlyChange struct {
	store.ChangeFunc
	applied func()
}

// Applied calls applied.
func (c *earlyChange) Applied() { c.applied() }

// DropOld removes the settled copies, except those used last, those of suspect namespaces and those of entries
// with a pending write, and then the versions that neither a copy nor a pending write needs. It returns the
// number of bytes that it has removed.
func (e *Entries) DropOld(ctx context.Context) (removed int64, err error) {
	var sample sampler
	if err := e.visitSettled(ctx, sample.add); err != nil {
		return 0, err
	}
	limit, _ := sample.usedSince(keptWhenFull) // guard 17.5
	copied := e.notUsedSince(limit)
	if err := copied.run(ctx); err != nil {
		return copied.bytes, err
	}
	versions, err := e.Drop(ctx, record.VersionPrefix)
	return copied.bytes + versions, err
}

// Drop removes the copies or versions under a prefix that nothing here needs, and returns the number of their bytes.
func (e *Entries) Drop(ctx context.Context, prefix string) (removed int64, err error) {
	all := &rangeRemoval{Entries: e, prefix: []byte(prefix)}
	err = all.run(ctx)
	return all.bytes, err
}

// rangeRemoval removes the copies or versions under a prefix, some at a time, and neighbours as one range:
// under disk pressure, one record for each would take too much room. It leaves what a suspect namespace, a
// pending write or a copy needs, and what is lost or gone.
type rangeRemoval struct {
	*Entries
	prefix []byte
	old    func(key, value []byte) bool // selects the records; nil means all
	byHand bool                         // a person has asked for it: also in suspect namespaces

	from    []byte // where to continue; nil at the end
	gone    []ID   // the entries of the present change
	records int
	bytes   int64
}

func (r *rangeRemoval) run(ctx context.Context) error {
	for r.from = r.prefix; r.from != nil; {
		if err := errors.Join(r.store.Update(r), ctx.Err()); err != nil {
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
	var stay []bool
	var read int
	err = store.Each(reader, from, record.After(r.prefix), func(key, value []byte) error {
		if read += len(value); len(keys) == droppedAtOnce || read > droppedBytes && len(keys) > 0 {
			r.from = bytes.Clone(key)
			return store.ErrEnough
		}
		keys, sizes = append(keys, bytes.Clone(key)), append(sizes, len(key)+len(value))
		times, stay = append(times, record.WrittenAt(value)), append(stay, r.old != nil && !r.old(key, value))
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrEnough) {
		return err
	}
	newest, upTo, before := 0.0, uint64(0), r.records // newest and upTo are of the removed versions
	if isVersion(r.prefix) {
		copies := namedVersions{reader: reader}
		for i, key := range keys {
			if id, seq, err := record.ParseVersionKey(key); err == nil && !stay[i] {
				of, err := copies.of(id)
				stay[i] = err != nil || of == seq // guard 3.42
			}
			if !stay[i] {
				if stay[i], err = hasLoss(reader, key); err != nil { // guard 13.95
					return err
				}
			}
		}
	}
	r.readers.RLock()
	defer r.readers.RUnlock()
	for begin, end := 0, 0; end <= len(keys); end++ {
		if end < len(keys) && !stay[end] && !r.stays(keys[end]) {
			r.records++
			r.bytes, newest = r.bytes+int64(sizes[end]), max(newest, times[end])
			if isVersion(r.prefix) {
				upTo = max(upTo, numberOf(keys[end]))
			}
			continue
		}
		switch end - begin {
		case 0:
		case 1:
			tx.Delete(keys[begin])
		default:
			tx.DeleteSpan(keys[begin], append(keys[end-1], 0))
		}
		begin = end + 1
	}
	if isVersion(r.prefix) && r.records > before {
		r.store.Removals.Add(1)
		if !r.byHand {
			r.forgotten.add(tx, newest, upTo)
		}
	}
	return nil
}

// Durable tells nobody: a reader asks upstream again, and no answer changes. A removal by hand makes
// answers of before outdated.
func (r *rangeRemoval) Durable() {
	for _, id := range r.gone {
		r.readers.Changed(queue.Change{ID: id})
	}
}

// numberOf returns the number of a version; 0 for a damaged key.
func numberOf(key []byte) uint64 {
	_, seq, err := record.ParseVersionKey(key)
	if err != nil {
		return 0
	}
	return seq
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
	case version && r.queue.Needs(id, seq): // guard 13.36
		return true
	case !version && (r.queue.Waits(id) || !r.byHand && r.Trust.isSuspect(id.Namespace)): // guard 19.11, 9.57
		return true
	}
	if r.byHand && (len(r.gone) == 0 || r.gone[len(r.gone)-1] != id) {
		r.gone = append(r.gone, id)
	}
	return false
}

// sampler estimates the ages of many records from a sample.
type sampler struct {
	size  int64 // bytes of all
	seen  int
	every int // one in this many is sampled
	kept  []sampled
}

type sampled struct {
	size int64
	used float64 // when it was last used; higher is later
}

func (s *sampler) add(size int64, used float64) {
	s.size += size
	s.every = max(1, s.every)
	if s.seen++; s.seen%s.every != 0 {
		return
	}
	s.kept = append(s.kept, sampled{size, used})
	if len(s.kept) < evictSamples {
		return
	}
	half := s.kept[:0]
	for i := 0; i < len(s.kept); i += 2 {
		half = append(half, s.kept[i])
	}
	s.kept, s.every = half, 2*s.every
}

// usedSince returns the earliest time such that what was used since then fits into the budget, and the size
// of that.
func (s *sampler) usedSince(budget int64) (since float64, size int64) {
	slices.SortFunc(s.kept, func(a, b sampled) int { return cmp.Compare(b.used, a.used) })
	since = math.Inf(1)
	for _, r := range s.kept {
		next := r.size * int64(s.every)
		if size+next > budget {
			if r.used == since { // guard 3.61
				since = math.Nextafter(since, math.Inf(1)) // not all of that moment fit
			}
			return since, size
		}
		since, size = r.used, size+next
	}
	return 0, size
}
