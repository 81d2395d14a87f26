package journal

import (
	"cmp"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Append journals a write. When it returns nil the write is fsynced, visible to readers and ordered
// before every write to its entry that began later (contract 1, 5).
//
// Errors: [ErrFull], *[NamespaceFullError], [ErrChanged], [ErrFailed], [ErrClosed].
func (j *Journal) Append(w NewWrite) (Write, error) {
	if err := j.store.Acquire(); err != nil {
		return Write{}, err
	}
	defer j.store.Release()
	if err := j.pending.ready(w.ID); err != nil {
		return Write{}, err
	}
	a := &appending{copies: j.copies, NewWrite: w, unlock: func() {}}
	if err := a.run(); err != nil {
		j.full.found(err, true) // guard 3.31
		return Write{}, err
	}
	return a.journaled(), nil
}

func (a *appending) journaled() Write {
	w := writeOf(a.ID, &a.write.Pending, a.Value, a.Author)
	w.removals, w.at, w.follows = a.removals, a.writtenAt, a.follows
	return w
}

// run journals the write. It gives a delete an updated_at no earlier than the settled copy's.
func (a *appending) run() (err error) {
	if a.Op == Delete {
		a.unlock = a.copies.lock(a.Namespace)
		defer a.unlock()
		if err := a.follow(); err != nil {
			return err
		}
	}
	return a.copies.store.Update(a)
}

// follow reads the entry's settled copy, which the write follows. The caller holds the copies lock.
func (a *appending) follow() error {
	copied, err := a.copies.head(a.ID)
	a.notBefore = copied.UpdatedAt
	return err
}

// appending is the change that journals one write.
type appending struct {
	NewWrite
	copies    *copies
	notBefore float64 // Unix seconds: a lower bound for updated_at
	frees     int64   // bytes of the budget that the same change frees
	write     pending.Write
	writtenAt float64    // Unix seconds: the wall clock when the write was journaled
	left      *[]Content // what requests may have left upstream, if the write changes that
	follows   uint64     // the number of the pending write that it replaces
	removals  int64      // copies.removals when the version was added
	unlock    func()     // releases the copies lock; does nothing if the write does not hold it
}

// Fill admits the write and orders it behind all earlier writes.
func (a *appending) Fill(tx *store.Tx) error {
	// guard 16.28
	defer a.unlock() // a refused change also waits for a sync
	if err := a.admit(tx); err != nil {
		return err
	}
	if a.left != nil {
		setLeft(tx, a.ID, *a.left)
	}
	tx.SetPending(a.ID, &a.write.Pending, a.Over, &record.Version{
		Op: a.Op, At: a.writtenAt, Follows: a.follows, Author: a.Author, ListBytes: int32(a.ListBytes), Value: a.Value,
	})
	if a.Request != nil { // guard 5.18
		a.Request.ID, a.Request.Op = a.ID, a.Op
		a.copies.pending.receipts.name(tx, a.Request, a.write.Seq)
	}
	a.removals = a.copies.removals.Load()
	a.copies.pending.add(a.ID, &a.write)
	return nil
}

// leave returns what requests may have left of an entry when another write takes the place of v, which was sent.
func (p *pendingSet) leave(tx *store.Tx, id ID, v *record.Pending) ([]Content, error) {
	if v.Op == Delete {
		return leftWith(tx, id, ContentOf(Delete, ""))
	}
	r, err := tx.Reader()
	if err != nil {
		return nil, err
	}
	sent, ok, err := readVersion(r, id, v.Seq)
	if err != nil || !ok {
		return nil, p.store.Owed(p.damagedIf(cmp.Or(err, errGone)))
	}
	return leftWith(tx, id, ContentOf(Put, sent.Value))
}

// supersedes returns the receipt of the older write that this one replaces.
func (a *appending) supersedes(old *record.Pending) *record.Receipt {
	return &record.Receipt{
		ID: a.ID, Seq: old.Seq, Op: old.Op, State: record.ReceiptSuperseded,
		WrittenAt: old.WrittenAt, SettledAt: max(a.writtenAt, old.WrittenAt), By: a.write.Seq,
	}
}

// Durable makes the write visible.
func (a *appending) Durable() { a.copies.pending.show(a.ID, &a.write, a.Author) }

// admit decides whether the journal takes the write. If so, it sets the write's version, and adds a
// receipt for the write that this one supersedes. The budget counts only the growth over the superseded
// write; the disk must have room for the whole write.
func (a *appending) admit(tx *store.Tx) error {
	p := a.copies.pending
	latest, exists := p.latest(a.ID)
	if a.If != nil && !a.If(latest.Seq) { // guard 5.1
		return ErrChanged
	}
	v := p.nextVersion(tx, a, latest, exists)
	if err := p.roomFor(tx.Totals(), a, latest, exists); err != nil {
		return err
	}
	if exists && p.wasSent(a.ID, latest.Seq) { // guard 14.9
		left, err := p.leave(tx, a.ID, &latest)
		if err != nil {
			return err
		}
		a.left = &left
	}
	a.write.Pending = v
	if exists {
		tx.DeletePending(a.ID, &latest)           // guard 3.13
		p.receipts.add(tx, a.supersedes(&latest)) // guard 13.6
	}
	return nil
}

// roomFor returns an error if there is no room for the write. latest is the entry's newest pending
// write.
func (p *pendingSet) roomFor(t record.Totals, a *appending, latest record.Pending, exists bool) error {
	size := (&record.Pending{Bytes: int32(len(a.Value))}).Size(a.ID)
	grows := size + entryMemory - record.Overhead // guard 3.12
	if exists {
		grows = size - latest.Size(a.ID)
	}
	if err := p.roomIn(a.Namespace, a.Op, grows); err != nil {
		return err
	}
	return p.room(t, grows-a.frees, size) // guard 3.69
}

func (p *pendingSet) nextVersion(tx *store.Tx, a *appending, latest record.Pending, exists bool) record.Pending {
	wall, now := p.stamp(a)
	a.writtenAt, a.follows = wall, latest.Seq // 0 if nothing is pending
	v := record.Pending{
		Seq: tx.NextSeq(), Op: a.Op, Bytes: int32(len(a.Value)), ListBytes: int32(a.ListBytes),
		UpdatedAt: now, Since: now, CreatedAt: now, WrittenAt: wall, LosesTies: a.LosesTies, Fenced: a.Fenced,
		Conditional: a.Over != nil,
	}
	if a.WrittenAt != 0 {
		v.WrittenAt = a.WrittenAt // guard 17.11
	}
	if !exists {
		// A put after a delete does not look at the settled copy. So the delete itself must
		// not be older than the copy (contract 19).
		v.UpdatedAt = max(now, a.notBefore) // guard 19.4
		return v
	}
	v.UpdatedAt = max(now, latest.UpdatedAt) // guard 19.2
	v.Since = latest.Since
	v.CreatedAt, v.AfterDelete = latest.CreatedAt, latest.AfterDelete
	// guard 17.12
	v.Fenced = v.Fenced || latest.Fenced // the earlier write may not have been sent
	if latest.Op == Delete {
		v.CreatedAt, v.AfterDelete = v.UpdatedAt, true
	}
	return v
}

// tick is the smallest difference between two BotWire times, in seconds.
const tick = 1e-6

// stamp returns the wall clock and the next write's time. That time is a.At if set; otherwise the wall
// clock, or later if needed. So listings order writes correctly, and a write is later than the upstream
// state that it follows. The caller is in the store's order.
func (p *pendingSet) stamp(a *appending) (wall, now float64) {
	const slack = 1 // seconds; if the clock is set back by more, stamps follow the clock
	wall = unixNow()
	if a.At != 0 {
		return wall, a.At
	}
	now = wall
	if p.notBefore != nil {
		now = max(now, p.notBefore(a.ID)+tick)
	}
	if now <= p.lastStamp && p.lastStamp-now < slack {
		now = p.lastStamp + tick
	}
	p.lastStamp = now
	return wall, now
}
