package queue

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// purgedAtOnce bounds how many records one change of a purge removes.
const purgedAtOnce = 256

// Purged counts what a purge has removed.
type Purged struct {
	Copies, Versions, DeadLetters, Receipts int
	// Pending counts the entries with a pending write. The write stays, and the copy that it is based on.
	Pending int
}

// Purge says what goes for good: see Journal.Purge.
type Purge struct {
	Of   ID     // of a namespace: without a key
	UpTo uint64 // later writes stay
	Last uint64 // the newest number when the purge began
	Done Purged
}

// Covers reports whether the purge is of an entry.
func (p *Purge) Covers(id ID) bool {
	return id.Namespace == p.Of.Namespace && (p.Of.Key == "" || id.Key == p.Of.Key)
}

// Until returns the last number that goes, of this journal's puts or of all else: the purge's own deletes go,
// and what upstream has shown since upTo, for that may be what is purged.
func (p *Purge) Until(put bool) uint64 {
	if put {
		return p.UpTo // guard 13.40
	}
	return p.Last
}

// CountPending returns the number of entries with a pending write, of a namespace or, with a key, of one entry.
func (q *Queue) CountPending(of ID) (n int) {
	l := q.Readers
	l.RLock()
	defer l.RUnlock()
	switch space := q.index.Space(of.Namespace); {
	case space == nil:
	case of.Key == "":
		n = space.Len()
	case q.Waits(of):
		n = 1
	}
	return n
}

// PurgeLeft removes the checksums of what requests may have left upstream of entries with nothing pending. That something may
// be there stays known: what comes of it is not another host's later state.
func (q *Queue) PurgeLeft(ctx context.Context, p *Purge) error {
	prefix := record.Within(record.LeftPrefix, p.Of.Namespace)
	var keys [][]byte
	err := store.Each(q.store.DB(), prefix, record.After(prefix), func(key, _ []byte) error {
		id, err := record.ParseEntryKey(record.LeftPrefix, key)
		if err == nil && p.Covers(id) {
			keys = append(keys, bytes.Clone(key))
		}
		return errors.Join(err, ctx.Err())
	})
	for chunk := range slices.Chunk(keys, purgedAtOnce) {
		if err == nil {
			err = q.store.Update(store.ChangeFunc(func(tx *store.Tx) error { return q.forgetLeft(tx, chunk) }))
		}
	}
	return err
}

func (q *Queue) forgetLeft(tx *store.Tx, keys [][]byte) error {
	for _, key := range keys {
		id, err := record.ParseEntryKey(record.LeftPrefix, key)
		if err != nil {
			return err
		}
		if !q.IsPending(id) {
			tx.Set(key, record.EncodeLeft(key, nil)) // guard 17.69
		}
	}
	return nil
}

// PurgeLetters removes dead letters.
func (q *Queue) PurgeLetters(ctx context.Context, p *Purge) error {
	var seqs []uint64
	err := store.ScanDead(q.store.DB(), 0, func(l *record.Dead) error {
		if p.Covers(l.ID) && l.Seq <= p.UpTo {
			seqs = append(seqs, l.Seq)
		}
		return ctx.Err()
	})
	for _, seq := range seqs {
		if err = errors.Join(err, ctx.Err()); err != nil {
			break
		}
		switch err = q.discard(seq); {
		case err == nil:
			p.Done.DeadLetters++
		case errors.Is(err, ErrNoDeadLetter): // somebody has just retried or discarded it
			err = nil
		}
	}
	return err
}

// PurgeReceipts removes receipts and the names of requests, but keeps the name of a request whose write is pending.
func (q *Queue) PurgeReceipts(ctx context.Context, p *Purge) error {
	from, to := record.GenerationKey(0), record.After([]byte(record.ReceiptPrefix))
	for more := true; more; {
		var keys [][]byte
		err := store.Each(q.store.DB(), from, to, func(key, value []byte) error {
			if len(keys) == purgedAtOnce {
				from = bytes.Clone(key)
				return store.ErrEnough
			}
			if body, err := record.Unseal(key, value); err == nil && q.purgesReceipt(p, key, body) {
				keys = append(keys, bytes.Clone(key))
			}
			return ctx.Err()
		})
		if more = errors.Is(err, store.ErrEnough); err != nil && !more {
			return err
		}
		err = q.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			q.receipts.remove(tx, keys)
			return nil
		}))
		if err != nil {
			return err
		}
		p.Done.Receipts += len(keys)
	}
	return nil
}

func (q *Queue) purgesReceipt(p *Purge, key, body []byte) bool {
	_, seq, err := record.ParseReceiptKey(key)
	if err != nil || seq > p.Last {
		return false
	}
	if seq == 0 {
		r, of, err := record.DecodeRequest(body)
		if err != nil || !p.Covers(r.ID) || of > p.UpTo { // guard 5.28
			return false
		}
		pending, waits := q.Latest(r.ID)
		return !waits || of == 0 || pending.Seq != of // guard 5.27
	}
	r, err := record.DecodeReceipt(seq, body)
	return err == nil && p.Covers(r.ID) && seq <= p.Until(r.Op == Put)
}
