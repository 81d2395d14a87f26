package entries

import (
	"fmt"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// Retire makes the change r. Before, it calls prepare, which sets the rest of r, with the namespace's copies lock held. what
// describes the change in an error. Retire acquires the store itself.
func (e *Entries) Retire(r *queue.Retiring, what string, prepare func() error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s %s: %w", what, r.Write.ID, err)
		}
	}()
	if err := e.store.Acquire(); err != nil {
		return err
	}
	defer e.store.Release()
	if err := e.queue.Ready(r.Write.ID); err != nil {
		return err
	}
	unlock := e.Lock(r.Write.Namespace)
	defer unlock()
	r.Placed = unlock
	defer r.Reveal()
	if err := prepare(); err != nil {
		return err
	}
	return e.queue.Retire(r)
}

// Settles returns the change that a confirmed write makes to the entry's settled copy and to its row. See
// [queue.Retiring]. The caller holds the copies lock.
func (e *Entries) Settles(w queue.Write) (outcome func(tx *store.Tx, newest bool), err error) {
	past, err := e.readHead(w.ID)
	if err != nil {
		return nil, err
	}
	copied, origin := e.settled(w, past)
	row, err := e.bringRow(w.Namespace, knownRow{
		Row:  Row{Key: w.Key, ListBytes: w.ListBytes, UpdatedAt: w.UpdatedAt, Origin: origin},
		gone: w.Op == Delete, arrived: true,
	})
	if err != nil {
		return nil, err
	}
	return func(tx *store.Tx, newest bool) {
		copied(tx, !newest, row.absentAt) // guard 7.10
		row.fill(tx)
	}, nil
}

// settled returns the change that a confirmed write makes to the entry's settled copy past. Upstream's
// own times are unknown, so the copy has the write's times until upstream is asked. The caller holds
// the copies lock.
//
// The copy names the version of the write, which is on the disk: also a full disk has room for it. After a
// restart, only the copy shows that upstream's state is this host's (contract 17).
func (e *Entries) settled(w queue.Write, past settledCopy) (fill func(tx *store.Tx, newerWaits bool, absentAt float64), origin Origin) {
	key := record.EntryKey(record.SettledPrefix, w.ID)
	origin = Origin{Seq: w.Seq, After: max(past.Origin.Known(), w.SentAfter)} // guard 17.8
	if w.Op == Delete {
		return func(tx *store.Tx, _ bool, _ float64) {
			tx.Delete(key)
			e.keepSeen(tx)
			e.unname(&past)
			e.dropNewest(tx, w.ID)
		}, origin
	}
	o := Observation{
		Value: w.Value, ListBytes: w.ListBytes, CreatedAt: w.Lineage.FirstPutAt, UpdatedAt: w.UpdatedAt,
		Origin: origin, MadeAt: w.MadeAt,
	}
	if past.intact && !w.Lineage.AfterDelete {
		o.CreatedAt = past.CreatedAt
	}
	if past.intact { // guard 19.5
		o.UpdatedAt = timeOf(e, o.UpdatedAt, past.UpdatedAt)
	}
	if w.CreatedAt != 0 {
		o.CreatedAt = w.CreatedAt
	}
	if past.intact {
		o.AbsentAt = past.AbsentAt
	}
	return func(tx *store.Tx, newerWaits bool, absentAt float64) {
		if !past.kept {
			o.AbsentAt = absentAt
		}
		e.unname(&past)
		if newerWaits && w.Lineage.Removals != e.store.Removals.Load() { // guard 3.40
			at, follows := w.Lineage.At, w.Lineage.Follows
			if at == 0 { // it may have replaced a write
				at, follows = w.WrittenAt, w.Seq-1
			}
			tx.SetVersion(w.ID, w.Seq, &record.Version{
				Op: w.Op, At: at, Follows: follows, Author: w.Author, ListBytes: int32(w.ListBytes), Value: w.Value,
			})
		}
		e.set(tx, w.ID, &o, store.UnixNow(), w.Seq)
	}, origin
}

// SettledBy returns the number of this journal's write that made an entry's settled copy; 0 if none did.
func (e *Entries) SettledBy(id ID) (uint64, error) {
	defer e.Lock(id.Namespace)()
	head, _, err := e.Head(id)
	return head.Origin.Seq, err
}
