package queue

import (
	"cmp"
	"errors"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Following is what a write follows: it begins where the entry's settled copy ends.
type Following struct {
	UpdatedAt float64 // Unix seconds: a lower bound for the write's UpdatedAt
	// Placed is called once the write has its place in the order of all writes, or is refused. It may be nil.
	Placed func()
}

// Ready prepares a write to the entry: it loads the entry into the index, and checks the free space.
//
// Errors: [store.ErrFailed], and those of the file system.
func (q *Queue) Ready(id ID) error {
	if q.store.Failed() {
		return store.ErrFailed
	}
	q.store.Look()
	return q.FaultIn(id)
}

// Append journals a write: the queue admits it in the order of all writes, and reserves its room there; the store adds it
// to the gathering batch, and syncs that; then readers see it. The caller has called [Queue.Ready], and has acquired the store.
//
// Errors: [ErrFull], *[NamespaceFullError], [ErrChanged], [store.ErrFailed].
func (q *Queue) Append(w NewWrite, after Following) (Write, error) {
	a := &appending{queue: q, NewWrite: w, after: after}
	if err := q.store.Update(a); err != nil {
		q.full.found(err, true) // guard 3.31
		return Write{}, err
	}
	return a.journaled(), nil
}

// Retry makes a dead letter the newest write to its entry again, like [Queue.Append], and removes the dead letter.
//
// Errors: [ErrNewer] if the condition of the write no longer holds, [ErrNoDeadLetter], and those of Append.
func (q *Queue) Retry(l *record.Dead, w NewWrite, after Following) (Write, error) {
	r := &retrying{dead: l, appending: appending{queue: q, NewWrite: w, after: after, frees: l.Size()}}
	if err := q.store.Update(r); err != nil {
		return Write{}, err
	}
	return r.journaled(), nil
}

func (a *appending) journaled() Write {
	w := writeOf(a.ID, &a.write.Pending, a.Value, a.Author)
	w.Lineage.Removals, w.Lineage.At, w.Lineage.Follows = a.removals, a.writtenAt, a.follows
	return w
}

// appending is the change that journals one write.
type appending struct {
	NewWrite
	queue     *Queue
	after     Following
	frees     int64 // bytes of the budget that the same change frees
	write     pending.Write
	writtenAt float64    // Unix seconds: the wall clock when the write was journaled
	left      *[]Content // what requests may have left upstream, if the write changes that
	follows   uint64     // the number of the pending write that it replaces
	removals  int64      // the store's Removals when the version was added
}

// placed tells the caller that the write has its place.
func (a *appending) placed() {
	if a.after.Placed != nil {
		a.after.Placed()
	}
}

// Fill admits the write and orders it behind all earlier writes.
func (a *appending) Fill(tx *store.Tx) error {
	// guard 16.28
	defer a.placed() // a refused change also waits for a sync
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
		a.queue.receipts.name(tx, a.Request, a.write.Seq)
	}
	a.removals = a.queue.store.Removals.Load()
	a.queue.add(a.ID, &a.write)
	return nil
}

// leave returns what requests may have left of an entry when another write takes the place of v, which was sent.
func (q *Queue) leave(tx *store.Tx, id ID, v *record.Pending) ([]Content, error) {
	if v.Op == Delete {
		return q.leftWith(tx, id, ContentOf(Delete, ""))
	}
	r, err := tx.Reader()
	if err != nil {
		return nil, err
	}
	sent, ok, err := store.ReadVersion(r, id, v.Seq)
	if err != nil || !ok {
		return nil, q.store.Owed(q.DamagedIf(cmp.Or(err, ErrGone)))
	}
	return q.leftWith(tx, id, ContentOf(Put, sent.Value))
}

// supersedes returns the receipt of the older write that this one replaces.
func (a *appending) supersedes(old *record.Pending) *record.Receipt {
	return &record.Receipt{
		ID: a.ID, Seq: old.Seq, Op: old.Op, State: record.ReceiptSuperseded,
		WrittenAt: old.WrittenAt, SettledAt: max(a.writtenAt, old.WrittenAt), By: a.write.Seq,
	}
}

// Durable makes the write visible.
func (a *appending) Durable() { a.queue.show(a.ID, &a.write, a.Author) }

// admit decides whether the journal takes the write. If so, it sets the write's version, and adds a
// receipt for the write that this one supersedes. The budget counts only the growth over the superseded
// write; the disk must have room for the whole write.
func (a *appending) admit(tx *store.Tx) error {
	q := a.queue
	latest, exists := q.Latest(a.ID)
	if a.If != nil && !a.If(latest.Seq) { // guard 5.1
		return ErrChanged
	}
	v := q.nextVersion(tx, a, latest, exists)
	if err := q.roomFor(tx.Totals(), a, latest, exists); err != nil {
		return err
	}
	if exists && q.wasSent(a.ID, latest.Seq) { // guard 14.9
		left, err := q.leave(tx, a.ID, &latest)
		if err != nil {
			return err
		}
		a.left = &left
	}
	a.write.Pending = v
	if exists {
		tx.DeletePending(a.ID, &latest)           // guard 3.13
		q.receipts.add(tx, a.supersedes(&latest)) // guard 13.6
	}
	return nil
}

// roomFor returns an error if there is no room for the write. latest is the entry's newest pending
// write.
func (q *Queue) roomFor(t record.Totals, a *appending, latest record.Pending, exists bool) error {
	size := (&record.Pending{Bytes: int32(len(a.Value))}).Size(a.ID)
	grows := size + EntryBytes - record.Overhead // guard 3.12
	if exists {
		grows = size - latest.Size(a.ID)
	}
	if err := q.roomIn(a.Namespace, a.Op, grows); err != nil {
		return err
	}
	return q.room(t, grows-a.frees, size) // guard 3.69
}

func (q *Queue) nextVersion(tx *store.Tx, a *appending, latest record.Pending, exists bool) record.Pending {
	wall, now := q.stamp(a)
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
		v.UpdatedAt = max(now, a.after.UpdatedAt) // guard 19.4
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

// stamp returns the wall clock and the next write's time. That time is a.At if set; otherwise the wall
// clock, or later if needed. So listings order writes correctly, and a write is later than the upstream
// state that it follows. The caller is in the store's order.
func (q *Queue) stamp(a *appending) (wall, now float64) {
	const slack = 1 // seconds; if the clock is set back by more, stamps follow the clock
	wall = store.UnixNow()
	if a.At != 0 {
		return wall, a.At
	}
	now = wall
	if q.opts.NotBefore != nil {
		now = max(now, q.opts.NotBefore(a.ID)+store.Tick)
	}
	if now <= q.lastStamp && q.lastStamp-now < slack {
		now = q.lastStamp + store.Tick
	}
	q.lastStamp = now
	return wall, now
}

// retrying is the change that makes a dead letter pending again.
type retrying struct {
	appending
	dead *record.Dead
}

// Fill admits the write, unless somebody else has retried or discarded it.
func (r *retrying) Fill(tx *store.Tx) error {
	if err := stillDead(tx, r.dead.Seq); err != nil {
		r.placed() // guard 16.29
		return err
	}
	if err := r.appending.Fill(tx); errors.Is(err, ErrChanged) {
		return ErrNewer
	} else if err != nil {
		return err
	}
	r.queue.Letters.remove(tx, r.dead)
	// guard 13.7
	r.queue.receipts.add(tx, r.supersedes(&r.dead.Pending))
	return nil
}
