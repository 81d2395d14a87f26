package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// Change is one atomic change of the store.
type Change interface {
	// Fill adds the change to the gathering batch. It is called in the order of all updates. If it
	// returns an error, it must not have added anything. It may take Options.Readers.
	Fill(tx *Tx) error
	// Durable makes the change visible. It is called once the change is durable, in the
	// order of all updates, with Options.Readers held.
	Durable()
}

// Early is a change that readers notice before it is durable. It must not show them anything that a
// power cut could undo.
type Early interface {
	Change
	// Applied is called as soon as the store has the change, under the same hold of Options.Readers. A
	// reader that holds the lock sees both or neither.
	Applied()
}

// ChangeFunc is a change with nothing to make visible.
type ChangeFunc func(tx *Tx) error

// Fill calls f.
func (f ChangeFunc) Fill(tx *Tx) error { return f(tx) }

// Durable does nothing.
func (ChangeFunc) Durable() {}

// Update makes a change, and returns when it is durable and visible. If Fill refuses the change, Update
// returns Fill's error once everything that Fill may have seen is durable.
//
// Errors: Fill's, and [ErrFailed].
func (p *pipeline) Update(c Change) error {
	t, err := p.enqueue(c)
	if failed := p.await(t); failed != nil {
		return failed
	}
	return err
}

// enqueue adds a change to the order, and returns the ticket of the group that makes it durable.
func (p *pipeline) enqueue(c Change) (t ticket, err error) {
	p.order.Lock()
	defer p.order.Unlock()
	early, isEarly := c.(Early)
	if isEarly { // readers wait for this change only, not for earlier ones
		if err := p.applyGathered(); err != nil {
			return ticket{}, err
		}
	}
	changed, err := p.fill(c)
	switch {
	case errors.Is(err, ErrFailed):
		return ticket{}, err
	case err != nil, !changed:
		return p.newest(), err // guard 1.2
	}
	if isEarly {
		err = p.applyEarly(early)
	} else if batch := p.gathering.batch; batch != nil && batch.Len() > groupBytes {
		err = p.applyGathered()
	}
	if err != nil {
		return ticket{}, err
	}
	return p.join(c), nil
}

// fill adds a change to the batch, and reports whether there is anything to apply. A half-filled batch
// is never applied, because a panic, or a record that Pebble refuses, ends the journal. The caller
// holds order.
func (p *pipeline) fill(c Change) (changed bool, err error) {
	defer p.recoverPanic(&err)
	if p.failed.Load() {
		return false, ErrFailed // the data that Fill reads may have been lost
	}
	p.tx = Tx{p: p}
	if err := c.Fill(&p.tx); err != nil {
		return false, err
	}
	if p.tx.err != nil {
		p.fail(p.tx.err)
		return false, ErrFailed
	}
	return p.tx.changed, nil
}

// recoverPanic ends the journal after a panic. It reports only the panic's type, because the text may
// hold a value.
func (p *pipeline) recoverPanic(err *error) {
	if r := recover(); r != nil {
		p.fail(fmt.Errorf("journaling: panic: %T", r)) // guard 2.2
		// guard 2.2b
		*err = ErrFailed
	}
}

// applyEarly applies a change and shows it. The batch holds no earlier changes.
func (p *pipeline) applyEarly(c Early) (err error) {
	p.readers.Lock() // guard 6.10
	// guard 6.10b
	defer p.readers.Unlock()
	defer p.recoverPanic(&err) // guard 2.8
	if err := p.applyGathered(); err != nil {
		return err
	}
	c.Applied()
	return nil
}

// Tx is an update that is being filled. It is valid until Fill returns.
type Tx struct {
	p       *pipeline
	changed bool
	err     error // the first error while filling the batch
}

// Reader returns the store with all earlier updates applied. Call it before the transaction changes
// anything.
func (tx *Tx) Reader() (pebble.Reader, error) {
	if err := tx.p.applyGathered(); err != nil {
		return nil, err
	}
	return tx.p.db, nil
}

// Totals returns the totals of the store, including the changes of this transaction.
func (tx *Tx) Totals() record.Totals { return tx.p.totals }

// NextSeq returns the sequence number of the next write.
func (tx *Tx) NextSeq() uint64 { return tx.p.totals.Seq + 1 }

// TakeSeq assigns a sequence number to something other than a pending write.
func (tx *Tx) TakeSeq() uint64 {
	tx.p.totals.Seq++
	return tx.p.totals.Seq
}

// SetVersion adds a version of an entry.
func (tx *Tx) SetVersion(id record.ID, seq uint64, v *record.Version) {
	var scratch [256]byte
	fields := record.AppendVersionFields(scratch[:0], v)
	keySize, size := record.VersionKeySize(id), record.VersionSize(fields, v.Value)
	op := tx.batch().SetDeferred(keySize, size)
	tx.p.versionBytes.Add(int64(keySize + size))
	record.AppendVersionKey(op.Key[:0], id, seq)
	record.EncodeVersion(op.Value, op.Key, fields, v.Value)
	tx.note(op.Finish())
}

// SetPending adds a write: its version, and its pending record. The write must have the next sequence
// number. SetPending sets the record's checksum. over is the base of a conditional write, and otherwise not used.
func (tx *Tx) SetPending(id record.ID, v *record.Pending, over *record.Base, stored *record.Version) {
	tx.SetVersion(id, v.Seq, stored)
	s := &tx.p.scratch // the batch copies both
	s.key = record.AppendPendingKey(s.key[:0], id, v.Seq)
	s.value = record.EncodePending(s.value[:0], s.key, v, over)
	tx.Set(s.key, s.value)
	tx.p.totals.Seq = v.Seq
	tx.p.totals.Add(id, v)
	tx.p.gathering.writes++
}

// DeletePending removes the record of a write.
func (tx *Tx) DeletePending(id record.ID, v *record.Pending) {
	s := &tx.p.scratch
	s.key = record.AppendPendingKey(s.key[:0], id, v.Seq)
	tx.Delete(s.key)
	tx.p.totals.Remove(id, v)
}

// SetDead adds a dead letter.
func (tx *Tx) SetDead(l *record.Dead) {
	key := record.DeadKey(l.Seq)
	tx.Set(key, record.EncodeDead(key, l))
	tx.p.totals.AddDead(l)
}

// DeleteDead removes a dead letter.
func (tx *Tx) DeleteDead(l *record.Dead) {
	tx.Delete(record.DeadKey(l.Seq))
	tx.p.totals.RemoveDead(l)
}

// SetTotals sets the totals of a store that is filled with existing records.
func (tx *Tx) SetTotals(t record.Totals) {
	tx.p.totals = t
	tx.Set(record.StateKey, record.EncodeTotals(&t)) // the batch has one, even without other records
}

// Set adds a sealed record that the state record does not count.
func (tx *Tx) Set(key, sealed []byte) { tx.note(tx.batch().Set(key, sealed, nil)) }

// Delete removes a record that the state record does not count.
func (tx *Tx) Delete(key []byte) { tx.note(tx.batch().Delete(key, nil)) }

// DeletePrefix removes the records under a prefix. The state record does not count these.
func (tx *Tx) DeletePrefix(prefix []byte) { tx.DeleteSpan(prefix, record.After(prefix)) }

// DeleteSpan removes the records from one key up to, but not including, another. The state record does
// not count these.
func (tx *Tx) DeleteSpan(from, to []byte) { tx.note(tx.batch().DeleteRange(from, to, nil)) }

// Sync makes the update wait for a sync although it changes nothing.
func (tx *Tx) Sync() { tx.changed = true; tx.p.gather() }

func (tx *Tx) note(err error) {
	tx.changed = true
	if tx.err == nil {
		tx.err = err
	}
}

func (tx *Tx) batch() *pebble.Batch {
	g := tx.p.gather()
	if g.batch == nil {
		g.batch = tx.p.db.NewBatch()
	}
	return g.batch
}
