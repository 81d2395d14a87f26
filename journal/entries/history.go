package entries

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// History reads the versions of entries: this journal's writes, and what upstream has shown. The oldest
// ones are removed, see Options.HistoryBytes. The methods may be called concurrently.
type History struct {
	entries *Entries
}

// Past is one version of an entry.
type Past struct {
	ID
	Seq       uint64
	Op        Op
	Value     string  // empty for a delete
	WrittenAt float64 // Unix seconds: when it was written, by the writer's clock
	State     PastState
	Author    string // see NewWrite.Author
	Host      string // empty for this journal's writes, and if unknown
	Shown     bool   // upstream has shown it: it is no write of this journal
	// Follows is the number of the version that was pending when it was written; 0 if none was.
	Follows uint64
	Gap     Gap // why the version before it is not known; only [History.Of] sets it
	// LostAt is when this journal learnt that it is lost or gone, in Unix seconds, and Order its place among those; 0 if it
	// is neither.
	LostAt float64
	Order  uint64
	// Apart says that it was never in force here: its number says nothing about when it was.
	Apart bool
}

// PastState says what became of a version.
type PastState string

// The states of a [Past].
const (
	PastPending    PastState = "pending"    // upstream has not confirmed it yet
	PastCurrent    PastState = "current"    // it is the settled copy
	PastSettled    PastState = "settled"    // upstream has confirmed it
	PastSuperseded PastState = "superseded" // a later write has replaced it, or its receipt is no longer kept
	PastDead       PastState = "dead"       // upstream has refused it, or a person has dropped it
	PastShown      PastState = "shown"      // upstream has shown it, and it is no longer the settled copy
	PastLost       PastState = "lost"       // it has lost a conflict between two hosts
	PastGone       PastState = "gone"       // upstream has ceased to hold it
)

// Since returns the time of the newest version that was removed for room, in Unix seconds; 0 if none was.
func (h *History) Since() float64 { return h.entries.forgotten.since() }

// Of returns up to limit versions of an entry, the newest first, without the damaged ones. All of them
// are durable. A version has a Gap if the one before it is damaged or was removed: retention takes the oldest
// first, but the settled copy's version stays, and so it may be older than removed ones.
func (h *History) Of(id ID, limit int) (versions []Past, err error) {
	if err := h.entries.store.Acquire(); err != nil {
		return nil, err
	}
	defer h.entries.store.Release()
	if err := h.entries.queue.FaultIn(id); err != nil {
		return nil, err
	}
	snapshot := h.entries.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	copies := namedVersions{reader: snapshot}
	prefix := record.VersionsOf(id)
	it, err := snapshot.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var none Past
	above := -1 // the index of the version that follows the next one
	last := func() *Past {
		if above < 0 {
			return &none
		}
		return &versions[above]
	}
	for it.Last(); it.Valid(); it.Prev() {
		past, err := h.past(&copies, it.Key(), it.Value())
		if h.entries.store.Damaged(err) {
			last().Gap = GapDamaged // guard 13.85
			continue
		}
		if err != nil {
			return nil, err
		}
		if !past.Apart { // guard 13.96
			last().isAbove(past.Seq)
			above = len(versions)
		}
		if len(versions) == limit {
			return versions, h.entries.store.AwaitDurable()
		}
		versions = append(versions, past)
	}
	last().isAbove(0)
	return versions, errors.Join(it.Error(), h.entries.store.AwaitDurable())
}

// Version returns one version of an entry, durably; ok is false if it is not kept, or damaged.
func (h *History) Version(id ID, seq uint64) (p Past, ok bool, err error) {
	if err := h.entries.store.Acquire(); err != nil {
		return p, false, err
	}
	defer h.entries.store.Release()
	if err := h.entries.queue.FaultIn(id); err != nil {
		return p, false, err
	}
	snapshot := h.entries.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	v, ok, err := store.ReadVersion(snapshot, id, seq)
	if err != nil || !ok {
		return p, false, store.IgnoreDamage(err)
	}
	if p, err = h.withState(&namedVersions{reader: snapshot}, pastOf(id, seq, &v)); err != nil {
		return p, false, err
	}
	return p, true, h.entries.store.AwaitDurable()
}

// isAbove sets the version's Gap. seq is the number of the next older version that is kept; 0 if there is none.
func (p *Past) isAbove(seq uint64) {
	if seq < p.Follows && p.Gap == "" { // guard 13.84
		p.Gap = GapForgotten
	}
}

// Author returns the author of a version; it is empty if the version is gone.
func (h *History) Author(id ID, seq uint64) (string, error) {
	v, _, err := versionOf(h.entries.store, id, seq)
	return v.Author, err
}

func (h *History) past(copies *namedVersions, key, sealed []byte) (Past, error) {
	past, err := decodePast(key, sealed)
	if err != nil {
		return past, err
	}
	return h.withState(copies, past)
}

// withState returns a version with what became of it.
func (h *History) withState(copies *namedVersions, past Past) (Past, error) {
	l, ended, err := lossOf(copies.reader, past.ID, past.Seq)
	if err != nil {
		return past, err
	}
	if ended {
		past.end(&l)
		return past, nil
	}
	past.State, err = h.state(copies, past.ID, past.Seq, past.Shown)
	return past, err
}

// end makes a version one that is lost or gone.
func (p *Past) end(l *record.Loss) {
	p.State, p.LostAt, p.Order, p.Apart = PastLost, l.At, l.Order, l.Apart
	if l.Gone {
		p.State = PastGone
	}
}

// decodePast returns a version without its state.
func decodePast(key, sealed []byte) (Past, error) {
	id, seq, err := record.ParseVersionKey(key)
	if err != nil {
		return Past{}, err
	}
	body, err := record.Unseal(key, sealed)
	if err != nil {
		return Past{}, err
	}
	v, err := record.DecodeVersion(body)
	if err != nil {
		return Past{}, err
	}
	return pastOf(id, seq, &v), nil
}

func pastOf(id ID, seq uint64, v *record.Version) Past {
	return Past{
		ID: id, Seq: seq, Op: v.Op, Value: v.Value, WrittenAt: v.At, Shown: v.Shown, Author: v.Author, Host: v.Host, Follows: v.Follows,
	}
}

func (h *History) state(copies *namedVersions, id ID, seq uint64, shown bool) (PastState, error) {
	latest, ok := h.entries.queue.Latest(id) // the caller waits until it is durable
	if ok && latest.Seq == seq {
		return PastPending, nil
	}
	if current, err := copies.of(id); err != nil || current == seq {
		return PastCurrent, err
	}
	if shown {
		return PastShown, nil
	}
	receipt, ok, err := h.entries.queue.Receipt(seq)
	if err != nil || ok && receipt.ID == id {
		return PastState(receipt.State.String()), err
	}
	letter, err := queue.ReadDead(copies.reader, seq) // its receipt may be gone
	if err == nil && letter.ID == id {
		return PastDead, nil
	}
	if errors.Is(err, queue.ErrNoDeadLetter) || store.IsDamage(err) {
		err = nil
	}
	return PastSuperseded, err
}

// versionOf reads a version of an entry; ok is false if the store does not hold it, or not undamaged.
func versionOf(s *store.Store, id ID, seq uint64) (record.Version, bool, error) {
	if err := s.Acquire(); err != nil {
		return record.Version{}, false, err
	}
	defer s.Release()
	v, ok, err := store.ReadVersion(s.DB(), id, seq)
	if s.Damaged(err) {
		return record.Version{}, false, nil
	}
	return v, ok, err
}
