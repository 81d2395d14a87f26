package journal

import (
	"fmt"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Settle records that upstream has confirmed a write. The write becomes the entry's settled copy (a
// delete removes the copy), and leaves the pending set unless a newer write to the entry is pending.
// Settle marks the entry's older dead letters as superseded. It is durable when it returns.
func (j *Journal) Settle(w Write) error {
	r := &retiring{w: w, state: record.ReceiptSettled}
	return j.copies.retire(r, "settling a write to", func() error {
		past, err := j.copies.readHead(w.ID)
		if err != nil {
			return err
		}
		marks, err := j.dead.mark(w.ID, w.Seq)
		if err != nil {
			return err
		}
		settled, origin := j.copies.settled(w, past)
		forgets, err := r.forgetsLeft()
		if err != nil {
			return err
		}
		row, err := j.copies.bringRow(w.Namespace, knownRow{
			Row:  Row{Key: w.Key, ListBytes: w.ListBytes, UpdatedAt: w.UpdatedAt, Origin: origin},
			gone: w.Op == Delete, arrived: true,
		})
		if err != nil {
			return err
		}
		r.fill = func(tx *store.Tx, last *record.Pending) {
			settled(tx, last == nil, row.absentAt) // guard 7.10
			row.fill(tx)
			forgets(tx)
			marks.fill(tx) // guard 13.14
		}
		if err := j.store.Update(r); err != nil || !marks.more {
			return err
		}
		return j.dead.markAll(w.ID, w.Seq)
	})
}

// settled returns the change that a confirmed write makes to the entry's settled copy past. Upstream's
// own times are unknown, so the copy has the write's times until upstream is asked. The caller holds
// the copies lock.
//
// The copy names the version of the write, which is on the disk: also a full disk has room for it. After a
// restart, only the copy shows that upstream's state is this host's (contract 17).
func (c *copies) settled(w Write, past settledCopy) (fill func(tx *store.Tx, newerWaits bool, absentAt float64), origin Origin) {
	key := record.EntryKey(record.SettledPrefix, w.ID)
	origin = Origin{Seq: w.Seq, After: max(past.Origin.Known(), w.SentAfter)} // guard 17.8
	if w.Op == Delete {
		return func(tx *store.Tx, _ bool, _ float64) {
			tx.Delete(key)
			c.keepSeen(tx)
			c.unname(&past)
			c.dropNewest(tx, w.ID)
		}, origin
	}
	o := Observation{
		Value: w.Value, ListBytes: w.ListBytes, CreatedAt: w.createdAt, UpdatedAt: w.UpdatedAt,
		Origin: origin, MadeAt: w.MadeAt,
	}
	if past.intact && !w.afterDelete {
		o.CreatedAt = past.CreatedAt
	}
	if past.intact { // guard 19.5
		o.UpdatedAt = timeOf(c, o.UpdatedAt, past.UpdatedAt)
	}
	if w.CreatedAt != 0 {
		o.CreatedAt = w.CreatedAt
	}
	if past.intact {
		o.AbsentAt = past.AbsentAt
	}
	return func(tx *store.Tx, newerWaits bool, absentAt float64) {
		if !past.kept {
			o.AbsentAt = max(absentAt, w.AbsentAt) // guard 13.111
		}
		c.unname(&past)
		if newerWaits && w.removals != c.removals.Load() { // guard 3.40
			if w.at == 0 { // it may have replaced a write
				w.at, w.follows = w.WrittenAt, w.Seq-1
			}
			tx.SetVersion(w.ID, w.Seq, &record.Version{
				Op: w.Op, At: w.at, Follows: w.follows, Author: w.Author, ListBytes: int32(w.ListBytes), Value: w.Value,
			})
		}
		c.set(tx, w.ID, &o, unixNow(), w.Seq)
	}, origin
}

// Failure says why a write becomes a dead letter.
type Failure struct {
	Kind DeadKind
	// Status is the status with which upstream refused the write (HTTP's for BotWire); 0 if there is
	// none. The journal does not interpret it.
	Status int
	Reason string // for people; never holds a value
}

// DeadLetter makes a pending write a dead letter: upstream refused it for good, or a person dropped it.
// If a newer write to the entry is pending, the write was superseded and leaves no dead letter.
// DeadLetter is durable when it returns.
//
// Until then, readers of the entry wait: no answer may show them an older state that a power cut could
// undo (contract 7). If upstream may hold the write, or an older one that has not settled, DeadLetter removes the
// settled copy and its row, and what may be there stays known: see [Journal.Left].
func (j *Journal) DeadLetter(w Write, why Failure) error {
	r := &retiring{
		w: w, hide: true, state: record.ReceiptDead, reason: why.Reason, dropped: why.Kind == Dropped,
	}
	return j.copies.retire(r, "dead-lettering a write to", func() error {
		left, known, err := j.Left(w)
		if err != nil {
			return err
		}
		forget := func(*store.Tx) {}
		if len(left) > 0 || !known { // guard 7.9
			if forget, err = j.copies.forget(w.ID); err != nil {
				return err
			}
		}
		r.fill = func(tx *store.Tx, last *record.Pending) {
			if last == nil { // nothing changes, and nobody waits for the sync with the lock
				r.unlock()
				return
			}
			if forget(tx); len(left) > 0 {
				setLeft(tx, w.ID, left) // guard 17.56
			}
			j.dead.set(tx, &record.Dead{ // guard 13.5
				ID: w.ID, Pending: *last, Value: w.Value, Author: w.Author, Kind: why.Kind, Status: why.Status, Error: why.Reason, RefusedAt: unixNow(),
			})
		}
		return j.store.Update(r)
	})
}

// retire calls change with the entry of r in the index and the namespace's copies lock held. change makes
// the change r, and readers who wait for it go on. what describes the change in an error.
func (c *copies) retire(r *retiring, what string, change func() error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s %s: %w", what, r.w.ID, err)
		}
	}()
	if err := c.store.Acquire(); err != nil {
		return err
	}
	defer c.store.Release()
	if err := c.pending.ready(r.w.ID); err != nil {
		return err
	}
	r.copies, r.unlock = c, c.lock(r.w.Namespace)
	defer r.unlock()
	defer r.reveal()
	return change()
}

// retiring ends an attempt at a write whose outcome is known. Unless a newer write is pending, it removes the
// pending record and adds a receipt. fill adds the other records of the outcome. It gets no version if a newer write
// is pending, which has already added the receipt.
//
// retiring is applied under the readers' lock: a reader finds the entry pending before it and settled
// after it.
type retiring struct {
	hiding
	copies  *copies
	w       Write
	fill    func(tx *store.Tx, last *record.Pending)
	state   record.ReceiptState // the outcome for the receipt
	reason  string
	dropped bool   // a person has dropped it
	hide    bool   // readers wait until the change is durable
	unlock  func() // releases the copies lock

	entry *pending.Entry
	last  bool // no newer write is pending
}

// forgetsLeft returns the change that forgets what requests may have left upstream: upstream holds the write now, or
// another host's.
func (r *retiring) forgetsLeft() (func(tx *store.Tx), error) {
	key := record.EntryKey(record.LeftPrefix, r.w.ID)
	kept, err := store.HoldsKey(r.copies.store.DB(), key)
	return func(tx *store.Tx) {
		if kept || !r.last { // otherwise a newer write may just have added it
			tx.Delete(key)
		}
	}, err
}

// Fill runs in the order of all writes, so no newer write can come in between.
func (r *retiring) Fill(tx *store.Tx) error {
	p := r.copies.pending
	p.readers.RLock()
	r.entry = p.index.Get(r.w.ID)
	latest, ok := r.entry.Latest()
	p.readers.RUnlock()
	if r.last = ok && latest.Seq == r.w.Seq; !r.last { // guard 12.3
		r.fill(tx, nil)
		return nil
	}
	tx.DeletePending(r.w.ID, &latest)
	r.fill(tx, &latest)
	p.receipts.add(tx, &record.Receipt{
		ID: r.w.ID, Seq: latest.Seq, Op: latest.Op, State: r.state,
		WrittenAt: latest.WrittenAt, SettledAt: max(unixNow(), latest.WrittenAt), Reason: r.reason,
	})
	return nil
}

// Applied removes the write from the pending set.
func (r *retiring) Applied() {
	change := Change{ID: r.w.ID, Seq: r.w.Seq}
	p := r.copies.pending
	switch {
	case r.last:
		v, _ := r.entry.Visible()
		change.Ended = endingOf(&v, r.state) // guard 13.28
		change.Ended.Reason, change.Ended.Dropped = r.reason, r.dropped
		p.index.Drop(r.entry)
	case r.entry != nil:
		p.index.WaitsSince(r.entry, r.w.UpdatedAt)
	}
	if r.hide { // guard 7.8
		r.revealed = r.copies.hide(r.w.ID, ID{Namespace: r.w.Namespace})
	}
	p.readers.changed(change)
	r.unlock()
}
