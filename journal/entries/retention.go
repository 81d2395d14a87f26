package entries

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// historyTo is the percentage of the budget that a pass leaves in use. A pass reads all versions, so it has
// to free much.
const historyTo = 60

// retention is what one pass over the history has found for the next one. A pass removes the oldest versions of entries. It
// keeps those of settled copies and of pending writes, and those that losses keeps. A write that a newer one has superseded
// may yet settle: that writes its version again. One goroutine uses it.
type retention struct {
	measured int64 // bytes of the history after the last pass; negative before the first one
	added    int64 // what may have come to the history at the last pass
}

// forgotten records how far back the history reaches.
type forgotten struct {
	newest atomic.Uint64 // the bits of the latest time of a removed version, in Unix seconds; 0 if none was removed
	upTo   atomic.Uint64 // the highest number of a removed version; 0 if none was removed
}

// load reads the record. A damaged one counts as missing.
func (r *forgotten) load(db pebble.Reader) error {
	_, err := store.Get(db, record.RetentionKey, func(body []byte) error {
		newest, upTo, err := record.DecodeRetention(body)
		r.newest.Store(math.Float64bits(newest))
		r.upTo.Store(upTo)
		return err
	})
	return store.IgnoreDamage(err) // guard 4.33
}

// since returns the latest time of a removed version, in Unix seconds; 0 if none was removed.
func (r *forgotten) since() float64 { return math.Float64frombits(r.newest.Load()) }

// add records that versions up to a time and a number are removed. A clock that was ahead does not count.
func (r *forgotten) add(tx *store.Tx, at float64, upTo uint64) {
	at = max(min(at, store.UnixNow()), r.since())
	was := r.upTo.Load()
	if upTo = max(upTo, was); was == math.MaxUint64 { // an older botwired did not keep it
		upTo = tx.Totals().Seq
	}
	if at > 0 && (at > r.since() || upTo != was) {
		r.newest.Store(math.Float64bits(at))
		r.upTo.Store(upTo)
		tx.Set(record.RetentionKey, record.EncodeRetention(at, upTo))
	}
}

// BoundHistory keeps the history within its budget. It reports whether it has removed any version.
func (e *Entries) BoundHistory(ctx context.Context) (removed bool, err error) {
	budget, r := e.opts.HistoryBytes, &e.retention
	// Versions that were written, and those of removed copies. A listing's removals do not count.
	added := e.store.VersionBytes() + e.unnamed.Load()
	if budget == 0 || r.measured >= 0 && r.measured+added-r.added <= budget {
		return false, nil
	}
	if r.measured < 0 {
		usage, err := e.store.Usage(record.VersionPrefix)
		if err != nil || usage+added <= budget {
			return false, err // the history cannot exceed the budget yet
		}
	}
	return e.TrimHistory(ctx, budget)
}

// TrimHistory measures the history. If it exceeds the budget, in bytes, TrimHistory removes the oldest versions.
func (e *Entries) TrimHistory(ctx context.Context, budget int64) (removed bool, err error) {
	r, added := &e.retention, e.store.VersionBytes()+e.unnamed.Load()
	var sample sampler
	if err := e.measureHistory(ctx, &sample); err != nil {
		return false, err
	}
	if r.measured, r.added = sample.size, added; sample.size <= budget {
		return false, nil
	}
	limit, kept := sample.usedSince(budget / 100 * historyTo)
	r.measured = kept
	old := &rangeRemoval{Entries: e, prefix: []byte(record.VersionPrefix), old: func(key, _ []byte) bool {
		_, seq, err := record.ParseVersionKey(key)
		return err == nil && float64(seq) < limit
	}}
	err = old.run(ctx)
	if old.records > 0 {
		e.logger.Info("the oldest versions of entries are removed", "versions", old.records)
	}
	return old.records > 0, err
}

// measureHistory samples the versions that may be removed.
func (e *Entries) measureHistory(ctx context.Context, sample *sampler) (err error) {
	snapshot := e.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	named, p := namedVersions{reader: snapshot}, e.queue
	prefix := []byte(record.VersionPrefix)
	return store.Each(snapshot, prefix, record.After(prefix), func(key, value []byte) error {
		id, seq, err := record.ParseVersionKey(key)
		if err != nil {
			return nil // a damaged key: nobody reads its version
		}
		of, err := named.of(id)
		if err != nil || of == seq {
			return err
		}
		lost, err := hasLoss(snapshot, key)
		if err != nil {
			return err
		}
		p.Readers.RLock()
		defer p.Readers.RUnlock()
		if !p.Needs(id, seq) && !lost {
			sample.add(int64(len(key)+len(value)), float64(seq))
		}
		return ctx.Err()
	})
}

// namedVersions finds the versions of settled copies. It remembers the last entry's.
type namedVersions struct {
	reader pebble.Reader
	id     ID
	seq    uint64
}

// of returns the version of an entry's settled copy; 0 if there is none. A damaged copy has none.
func (n *namedVersions) of(id ID) (seq uint64, err error) {
	if id == n.id {
		return n.seq, nil
	}
	_, err = store.Get(n.reader, record.EntryKey(record.SettledPrefix, id), func(body []byte) (err error) {
		_, _, seq, err = record.DecodeSettled(body)
		return err
	})
	if err != nil && !store.IsDamage(err) {
		return 0, err
	}
	n.id, n.seq = id, seq
	return seq, nil
}
