package entries

import (
	"cmp"
	"fmt"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// Fence compares writes with other hosts' states upstream, and keeps the state that loses (contract
// 17). The caller asks upstream whether another host has changed an entry since the write was made, and
// decides which state is later. The methods may be called concurrently, but not for the same entry.
type Fence struct {
	entries *Entries
}

// Base returns the state that upstream should hold for an entry: its settled copy, or absent if a
// complete listing lacks the entry.
func (f *Fence) Base(id ID) (Base, error) {
	if err := f.entries.store.Acquire(); err != nil {
		return Base{}, err
	}
	defer f.entries.store.Release()
	defer f.entries.Lock(id.Namespace)()
	past, err := f.entries.read(id)
	if err != nil || past.intact {
		return Base{
			Known: past.intact, Present: true, Content: ContentOf(Put, past.Value), Origin: past.Origin, UpdatedAt: past.UpdatedAt,
			MadeAt: past.MadeAt,
		}, err
	}
	h, listed, _, err := readListed(f.entries, f.entries.store.DB(), id)
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
	versions, err := f.entries.History.Of(id, mostRemembered)
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
		if overwrote { // guard 17.73
			return Base{}, left, err
		}
	}
	return Base{}, left, err
}

// Wrote reports whether there is a receipt that says that the write of a number was to the entry.
func (f *Fence) Wrote(id ID, seq uint64) (bool, error) {
	if err := f.entries.store.Acquire(); err != nil {
		return false, err
	}
	defer f.entries.store.Release()
	r, ok, err := f.entries.queue.Receipt(seq)
	return ok && r.ID == id, err
}

// Written returns what the write of a number to the entry has left, as far as the history still has it.
func (f *Fence) Written(id ID, seq uint64) (Content, bool, error) {
	v, ok, err := versionOf(f.entries.store, id, seq)
	return ContentOf(v.Op, v.Value), ok && !v.Shown, err
}

// Lose records that another host's later state has beaten a pending write. The state becomes the
// settled copy, unless the copy is newer or the disk lacks room. The write's version is lost, unless the write
// loses ties or has a NewWrite.Over. If a newer write to the entry is pending, the old copy stays: the state became
// known after that write was made, so the write must still be compared with it.
// Lose is durable when it returns; until then, readers of the entry wait (contract 7).
//
// What is lost takes at most an eighth of Options.MaxBytes, on top of it: the oldest losses are removed first.
func (f *Fence) Lose(w queue.Write, o Observation, reason string) error {
	return f.lose(w, &o, 0, reason)
}

// LoseToDelete records, like [Fence.Lose], that another host's later delete has beaten a pending write.
// at is the time of the delete in Unix seconds.
func (f *Fence) LoseToDelete(w queue.Write, at float64, reason string) error {
	return f.lose(w, nil, at, reason)
}

// lose handles a state that another host wrote. o is nil for a delete, which was at a time in Unix seconds.
func (f *Fence) lose(w queue.Write, o *Observation, at float64, reason string) error {
	r := &queue.Retiring{ // guard 7.19
		Write: w, Hides: true, State: record.ReceiptSuperseded, Reason: reason,
	}
	err := f.entries.Retire(r, "keeping the state that has beaten a write to", func() error {
		copied, err := f.won(r, o, at)
		if err != nil {
			return err
		}
		r.Outcome = func(tx *store.Tx, newest bool) {
			if newest { // guard 17.27
				// guard 17.3
				copied(tx)
			}
			if newest && !w.LosesTies && w.Over == nil { // guard 17.2
				f.entries.losses.add(tx, w.ID, w.Seq, w.Value, record.Loss{At: store.UnixNow()})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.entries.store.Use(f.entries.boundLosses)
}

// won returns the change that another host's state makes to the settled copy and the listing. theirs is
// nil for a delete. The caller holds the copies lock.
func (f *Fence) won(r *queue.Retiring, theirs *Observation, at float64) (fill func(*store.Tx), err error) {
	past, err := f.entries.last(r.Write.ID) // guard 23.39
	if err != nil {
		return nil, err
	}
	if past.intact && theirs == nil && past.Origin.NewerThan(at) || theirs != nil && past.newerThan(theirs) { // guard 7.28
		// A newer state is known: no reader may see an older one again (contract 7).
		f.entries.Trust.heard(r.Write.Namespace, 1)
		return func(*store.Tx) {}, nil
	}
	if theirs == nil {
		return f.deleted(r, &past, at)
	}
	return f.replaced(r, *theirs, &past)
}

// deleted returns the change that another host's delete makes.
func (f *Fence) deleted(r *queue.Retiring, past *settledCopy, at float64) (fill func(*store.Tx), err error) {
	row, err := f.entries.bringRow(r.Write.Namespace, knownRow{Row: Row{Key: r.Write.Key}, gone: true})
	if err != nil {
		return nil, err
	}
	return func(tx *store.Tx) {
		f.entries.gone(tx, r.Write.ID, past, at)
		row.fill(tx)
	}, nil
}

// replaced returns the change that another host's value makes.
func (f *Fence) replaced(r *queue.Retiring, o Observation, past *settledCopy) (fill func(*store.Tx), err error) {
	id, shownAt := r.Write.ID, o.UpdatedAt
	o.Origin = Origin{At: shownAt}
	o.UpdatedAt = timeOf(f.entries, o.UpdatedAt, max(past.UpdatedAt, r.Write.UpdatedAt))
	row, err := f.entries.bringRow(id.Namespace, knownRow{
		Row:     Row{Key: id.Key, ListBytes: o.ListBytes, UpdatedAt: o.UpdatedAt, Origin: o.Origin},
		shownAt: shownAt, foreign: true,
	})
	if err != nil {
		return nil, err
	}
	keeps := !f.entries.store.Low(int64(len(o.Value)))
	return func(tx *store.Tx) {
		f.entries.unname(past)
		if keeps {
			f.entries.set(tx, id, &o, store.UnixNow(), 0)
		} else {
			tx.Delete(record.EntryKey(record.SettledPrefix, id))
		}
		row.fill(tx)
	}, nil
}

// KeepOverwritten keeps another host's state, which a write is about to overwrite upstream, as a version that is lost. It is
// durable when KeepOverwritten returns. A state that upstream has shown before with the same time and value is kept only once.
// KeepOverwritten never returns [queue.ErrFull].
func (f *Fence) KeepOverwritten(id ID, o Observation) error {
	return f.keepTheirs(id, Put, &o)
}

// KeepOverwrittenDelete keeps, like [Fence.KeepOverwritten], another host's delete, which a write is
// about to overwrite. at is the time of the delete in Unix seconds.
func (f *Fence) KeepOverwrittenDelete(id ID, at float64) error {
	return f.keepTheirs(id, Delete, &Observation{UpdatedAt: at})
}

func (f *Fence) keepTheirs(id ID, op Op, o *Observation) error {
	if err := f.entries.store.Acquire(); err != nil {
		return err
	}
	defer f.entries.store.Release()
	err := f.entries.losses.overwritten(id, &record.Version{
		Op: op, Shown: true, At: cmp.Or(o.MadeAt, o.UpdatedAt), Author: o.Author, Host: o.Host, ListBytes: int32(o.ListBytes), Value: o.Value,
	})
	if err == nil {
		err = f.entries.boundLosses()
	}
	if err != nil {
		return fmt.Errorf("keeping the state that a write to %s overwrites: %w", id, err)
	}
	return nil
}
