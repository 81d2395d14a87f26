package journal

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Fence compares writes with other hosts' states upstream, and keeps the state that loses (contract
// 17). The caller asks upstream whether another host has changed an entry since the write was made, and
// decides which state is later. The methods may be called concurrently, but not for the same entry.
type Fence struct {
	store   *store.Store
	pending *pendingSet
	copies  *copies
	dead    *deadIndex
	losses  *losses
	budget  int64 // bytes for the dead letters of conflicts; 0 means no bound
}

// conflictShare is the divisor of Options.MaxBytes that bounds the dead letters of conflicts between
// hosts. They come on top of MaxBytes: they need no decision, and a host whose writes keep losing must
// still take writes.
const conflictShare = 8

// Base is the state that upstream holds until the pending write replaces it, as far as the journal
// knows.
type Base = record.Base

// Base returns the state that upstream should hold for an entry: its settled copy, or absent if a
// complete listing lacks the entry.
func (f *Fence) Base(id ID) (Base, error) {
	if err := f.store.Acquire(); err != nil {
		return Base{}, err
	}
	defer f.store.Release()
	defer f.copies.lock(id.Namespace)()
	past, err := f.copies.read(id)
	if err != nil || past.intact {
		return Base{
			Known: past.intact, Present: true, Content: ContentOf(Put, past.Value), Origin: past.Origin, UpdatedAt: past.UpdatedAt,
			MadeAt: past.MadeAt,
		}, err
	}
	h, listed, _, err := readListed(f.copies, f.store.DB(), id)
	if err != nil || past.kept || listed || !h.Complete { // guard 17.7
		return Base{Listed: past.kept || listed}, err
	}
	return Base{Known: true, Content: ContentOf(Delete, "")}, nil
}

// mostRemembered bounds how many versions Remembered looks at.
const mostRemembered = 16

// Remembered returns what the history says of an entry without a copy: the state that this journal's last
// confirmed write left upstream, and what refused or dropped writes since may have left there. The state is
// unknown if upstream has shown another one since.
func (f *Fence) Remembered(id ID) (base Base, left []Content, err error) {
	history := &History{store: f.store, pending: f.pending, copies: f.copies}
	versions, err := history.Of(id, mostRemembered)
	overwrote := false // the next one was about to overwrite another host's state
	for _, v := range versions {
		content := ContentOf(v.Op, v.Value)
		switch v.State {
		case PastSettled, PastCurrent:
			return Base{Known: true, Present: v.Op == Put, Content: content, Origin: Origin{Seq: v.Seq}}, left, err
		case PastDead:
			left = append(left, content)
		case PastLost:
			if overwrote = v.Apart; v.Apart {
				continue
			}
			return Base{}, left, err
		case PastShown, PastGone:
			return Base{}, left, err // guard 17.52
		case PastPending, PastSuperseded: // perhaps never sent
		}
		if overwrote { // guard 17.70
			return Base{}, left, err
		}
	}
	return Base{}, left, err
}

// Wrote reports whether there is a receipt that says that the write of a number was to the entry.
func (f *Fence) Wrote(id ID, seq uint64) (bool, error) {
	if err := f.store.Acquire(); err != nil {
		return false, err
	}
	defer f.store.Release()
	r, ok, err := f.pending.receipts.find(seq)
	return ok && r.ID == id, err
}

// Written returns what the write of a number to the entry has left, as far as the history still has it.
func (f *Fence) Written(id ID, seq uint64) (Content, bool, error) {
	v, ok, err := versionOf(f.store, id, seq)
	return ContentOf(v.Op, v.Value), ok && !v.Shown, err
}

// Lose records that another host's later state has beaten a pending write. The state becomes the
// settled copy, unless the copy is newer or the disk lacks room. The write becomes a dead letter with
// the state as its winner, unless it loses ties. If a newer write to the entry is pending, the old copy
// stays: the state became known after that write was made, so the write must still be compared with it.
// Lose is durable when it returns; until then, readers of the entry wait (contract 7).
//
// The dead letters of Lose and [Fence.KeepOverwritten] together take at most an eighth of
// Options.MaxBytes, on top of it. The oldest are removed first, and the last one stays.
func (f *Fence) Lose(w Write, o Observation, reason string) error {
	return f.lose(w, &o, cmp.Or(o.MadeAt, o.UpdatedAt), reason) // guard 17.55
}

// LoseToDelete records, like [Fence.Lose], that another host's later delete has beaten a pending write.
// at is the time of the delete in Unix seconds.
func (f *Fence) LoseToDelete(w Write, at float64, reason string) error {
	return f.lose(w, nil, at, reason)
}

// lose handles a state that another host wrote at the given time. o is nil for a delete.
func (f *Fence) lose(w Write, o *Observation, at float64, reason string) error {
	r := &retiring{ // guard 7.19
		w: w, hide: true, state: record.ReceiptSuperseded, reason: reason,
	}
	return f.copies.retire(r, "keeping the state that has beaten a write to", func() error {
		copied, err := f.won(r, o, at)
		if err != nil {
			return err
		}
		forgets, err := r.forgetsLeft()
		if err != nil {
			return err
		}
		r.fill = func(tx *store.Tx, last *record.Pending) {
			if last != nil { // guard 17.27
				// guard 17.3
				copied(tx)
			}
			forgets(tx)
			if last != nil && !w.LosesTies && w.Over == nil { // guard 17.2
				f.losses.add(tx, w.ID, w.Seq, w.Value, record.Loss{At: unixNow()})
				f.dead.set(tx, &record.Dead{
					ID: w.ID, Pending: *last, Value: w.Value, Author: w.Author, Kind: Superseded, Error: reason, RefusedAt: unixNow(),
					Winner: winnerOf(o, at),
				})
			}
		}
		if err := f.store.Update(r); err != nil {
			return err
		}
		return errors.Join(f.dead.boundConflicts(f.budget), f.boundLosses())
	})
}

func (f *Fence) boundLosses() error {
	return f.losses.bound(func(bytes int64) { f.copies.unnamed.Add(bytes) })
}

// winnerOf returns another host's state as a winner. o is nil for a delete.
func winnerOf(o *Observation, at float64) *Winner {
	if o == nil {
		return &Winner{At: at}
	}
	return &Winner{Present: true, Value: o.Value, At: at}
}

// won returns the change that another host's state makes to the settled copy and the listing. theirs is
// nil for a delete. The caller holds the copies lock.
func (f *Fence) won(r *retiring, theirs *Observation, at float64) (fill func(*store.Tx), err error) {
	past, err := f.copies.last(r.w.ID) // guard 23.39
	if err != nil {
		return nil, err
	}
	if past.intact && theirs == nil && past.Origin.NewerThan(at) || theirs != nil && past.newerThan(theirs) { // guard 7.28
		// A newer state is known: no reader may see an older one again (contract 7).
		f.copies.trust.heard(r.w.Namespace, 1)
		return func(*store.Tx) {}, nil
	}
	if theirs == nil {
		return f.deleted(r, &past, at)
	}
	return f.replaced(r, *theirs, &past)
}

// deleted returns the change that another host's delete makes.
func (f *Fence) deleted(r *retiring, past *settledCopy, at float64) (fill func(*store.Tx), err error) {
	row, err := f.copies.bringRow(r.w.Namespace, knownRow{Row: Row{Key: r.w.Key}, gone: true})
	if err != nil {
		return nil, err
	}
	return func(tx *store.Tx) {
		f.copies.gone(tx, r.w.ID, past, at)
		row.fill(tx)
	}, nil
}

// replaced returns the change that another host's value makes.
func (f *Fence) replaced(r *retiring, o Observation, past *settledCopy) (fill func(*store.Tx), err error) {
	id, shownAt := r.w.ID, o.UpdatedAt
	o.Origin = Origin{At: shownAt}
	o.UpdatedAt = timeOf(f.copies, o.UpdatedAt, max(past.UpdatedAt, r.w.UpdatedAt))
	row, err := f.copies.bringRow(id.Namespace, knownRow{
		Row:     Row{Key: id.Key, ListBytes: o.ListBytes, UpdatedAt: o.UpdatedAt, Origin: o.Origin},
		shownAt: shownAt, foreign: true,
	})
	if err != nil {
		return nil, err
	}
	keeps := !f.store.Low(int64(len(o.Value)))
	return func(tx *store.Tx) {
		f.copies.unname(past)
		if keeps {
			f.copies.set(tx, id, &o, unixNow(), 0)
		} else {
			tx.Delete(record.EntryKey(record.SettledPrefix, id))
		}
		row.fill(tx)
	}, nil
}

// KeepOverwritten keeps another host's state, which a write is about to overwrite upstream, as a dead
// letter with the write as its winner. The dead letter is durable when KeepOverwritten returns. A state
// that upstream has shown before with the same time and value is kept only once. KeepOverwritten never
// returns [ErrFull].
func (f *Fence) KeepOverwritten(w Write, o Observation, reason string) error {
	return f.keepTheirs(theirLetter(w, Put, o, reason), &o)
}

// KeepOverwrittenDelete keeps, like [Fence.KeepOverwritten], another host's delete, which a write is
// about to overwrite. at is the time of the delete in Unix seconds.
func (f *Fence) KeepOverwrittenDelete(w Write, at float64, reason string) error {
	o := Observation{CreatedAt: at, UpdatedAt: at}
	return f.keepTheirs(theirLetter(w, Delete, o, reason), &o)
}

// theirLetter makes a dead letter of another host's state that a write overwrites. The letter has no
// number yet.
func theirLetter(w Write, op Op, o Observation, reason string) *record.Dead {
	return &record.Dead{
		ID: w.ID, Kind: Superseded, SupersededBy: w.Seq, Error: reason, RefusedAt: unixNow(), Theirs: true,
		Pending: record.Pending{
			Op: op, Bytes: int32(len(o.Value)), ListBytes: int32(o.ListBytes),
			UpdatedAt: o.UpdatedAt, WrittenAt: cmp.Or(o.MadeAt, o.UpdatedAt), Since: o.UpdatedAt, CreatedAt: o.CreatedAt,
		},
		Value:  o.Value,
		Author: o.Author,
		Winner: &Winner{Present: w.Op == Put, Value: w.Value, At: w.WrittenAt, Seq: w.Seq},
	}
}

func (f *Fence) keepTheirs(letter *record.Dead, o *Observation) error {
	if err := f.store.Acquire(); err != nil {
		return err
	}
	defer f.store.Release()
	err := f.keepOverwritten(letter, o)
	if err == nil {
		err = errors.Join(f.dead.boundConflicts(f.budget), f.boundLosses())
	}
	if err != nil {
		return fmt.Errorf("keeping the state that write %d to %s overwrites: %w", letter.SupersededBy, letter.ID, err)
	}
	return nil
}

// keepLost keeps another host's state as a version that is lost.
func (f *Fence) keepLost(tx *store.Tx, letter *record.Dead, o *Observation) {
	letter.Seq = tx.TakeSeq()
	tx.SetVersion(letter.ID, letter.Seq, &record.Version{
		Op: letter.Op, Shown: true, At: letter.WrittenAt, Author: o.Author, Host: o.Host, ListBytes: letter.ListBytes, Value: o.Value,
	})
	f.losses.add(tx, letter.ID, letter.Seq, o.Value, record.Loss{At: unixNow(), Apart: true})
}

func (f *Fence) keepOverwritten(letter *record.Dead, o *Observation) error {
	kept, err := f.dead.findTheirs(letter)
	if err != nil {
		return err
	}
	if kept != nil && kept.SupersededBy == letter.SupersededBy {
		return f.store.AwaitDurable()
	}
	return f.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		if kept == nil {
			f.keepLost(tx, letter, o)
			f.dead.set(tx, letter)
			return nil
		}
		err := stillDead(tx, kept.Seq)
		switch {
		case errors.Is(err, ErrNoDeadLetter): // somebody has just retried or discarded it
			f.keepLost(tx, letter, o)
		case err != nil:
			return err
		default: // an earlier write was about to overwrite the same state
			f.dead.remove(tx, kept)
			letter.Seq = kept.Seq
		}
		f.dead.set(tx, letter)
		return nil
	}))
}

// findTheirs returns the dead letter that already holds the same state of another host, or nil.
func (d *deadIndex) findTheirs(of *record.Dead) (found *record.Dead, err error) {
	same := func(l *record.Dead) bool {
		return l.Theirs && l.ID == of.ID && l.Op == of.Op && l.UpdatedAt == of.UpdatedAt && l.Value == of.Value
	}
	for _, seq := range d.theirsOf(of.ID) {
		l, err := readDead(d.store.DB(), seq)
		if errors.Is(err, ErrNoDeadLetter) {
			continue
		}
		if err != nil || same(&l) { // guard 17.4
			return &l, err
		}
	}
	return nil, nil
}

// boundConflicts removes the oldest dead letters of conflicts between hosts until the rest fit into
// budget bytes. It keeps at least one.
func (d *deadIndex) boundConflicts(budget int64) error {
	for budget > 0 {
		oldest, others := d.oldestConflict()
		if !others || d.store.Totals().ConflictBytes <= budget { // guard 17.6
			return nil
		}
		l, err := readDead(d.store.DB(), oldest)
		if err == nil {
			err = d.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
				if err := stillDead(tx, oldest); err != nil {
					return err
				}
				d.remove(tx, &l)
				return nil
			}))
		}
		if err != nil && !errors.Is(err, ErrNoDeadLetter) { // somebody has just retried or discarded it
			return err
		}
	}
	return nil
}
