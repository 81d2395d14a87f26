package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Receipt tells the outcome of one acknowledged write.
type Receipt = record.Receipt

// ReceiptState is the outcome of a write.
type ReceiptState = record.ReceiptState

// The states of a [Receipt].
const (
	ReceiptPending    = record.ReceiptPending
	ReceiptSettled    = record.ReceiptSettled
	ReceiptSuperseded = record.ReceiptSuperseded
	ReceiptDead       = record.ReceiptDead
)

// Receipts tells the outcomes of acknowledged writes. It keeps them as ReceiptsFor and ReceiptsKept say.
// The batch that removes a write from the pending set adds its receipt, so after a crash one of the two
// exists. A pending write has no stored receipt; Receipts finds it in the index. The methods may be
// called concurrently.
type Receipts struct {
	queue     *Queue
	searching sync.Mutex // one search of the index at a time
}

// Read returns the receipt of a write. The receipt is durable.
//
// Errors: [ErrNoWrite], [ErrNoReceipt], [store.ErrClosed], ctx's, and [ErrRebuilding] until
// [Queue.Rebuilt].
func (r *Receipts) Read(ctx context.Context, seq uint64) (Receipt, error) {
	select {
	case <-r.queue.rebuilt:
	default:
		return Receipt{}, ErrRebuilding
	}
	if err := r.queue.store.Acquire(); err != nil {
		return Receipt{}, err
	}
	defer r.queue.store.Release()
	if seq == 0 || seq > r.queue.store.Totals().Seq {
		return Receipt{}, fmt.Errorf("%w: %d", ErrNoWrite, seq)
	}
	// A write may settle between the two lookups; then the second round finds its receipt. A write that
	// was still being journaled is pending by then.
	for range 2 {
		found, ok, err := r.queue.receipts.find(seq)
		if err == nil && !ok {
			found, ok, err = r.search(ctx, seq)
		}
		if err != nil {
			return Receipt{}, err
		}
		// guard 13.9
		if ok && r.isPending(found.ID, seq) { // a recovery may have brought the write back
			return Receipt{ID: found.ID, Seq: seq, Op: found.Op, WrittenAt: found.WrittenAt}, nil
		}
		if err := r.queue.store.AwaitDurable(); err != nil { // guard 13.8
			return Receipt{}, err
		}
		if ok && found.State != ReceiptPending {
			return found, nil
		}
	}
	return Receipt{}, fmt.Errorf("%w: write %d", ErrNoReceipt, seq)
}

// ReceiptsKept returns the number of receipts that are kept.
func (q *Queue) ReceiptsKept() uint64 { return q.receipts.kept() }

// MaintainReceipts removes receipts that are too old or too many. One goroutine calls it regularly. It acquires the store itself.
func (q *Queue) MaintainReceipts() error { return q.store.Use(q.receipts.maintain) }

// GiveUpReceipts removes the receipts, but for those of the last generation. The caller has acquired the store.
func (q *Queue) GiveUpReceipts() error { return q.receipts.giveUp() }

// Receipt reads the receipt that the store has of a write, perhaps one that is not durable yet; ok is false if it has none. The
// caller has acquired the store.
func (q *Queue) Receipt(seq uint64) (found Receipt, ok bool, err error) { return q.receipts.find(seq) }

// newestSearched bounds how many sequence numbers Newest looks at: not each belongs to a write.
const newestSearched = 1000

// Newest returns at most most receipts of writes that have ended, the newest writes first. They are durable.
func (r *Receipts) Newest(most int) ([]Receipt, error) {
	if err := r.queue.store.Acquire(); err != nil {
		return nil, err
	}
	defer r.queue.store.Release()
	newest := []Receipt{}
	last := r.queue.store.Totals().Seq
	for seq := last; seq > 0 && last-seq < newestSearched && len(newest) < most; seq-- {
		found, ok, err := r.queue.receipts.find(seq)
		switch {
		case err != nil:
			return nil, err
		case ok && !r.isPending(found.ID, seq):
			newest = append(newest, found)
		}
	}
	return newest, r.queue.store.AwaitDurable()
}

// Request returns the request with this name, and the number of the write that it has made; 0 if it was refused and has
// made none. If there is no such request, Op is 0. The request is durable when Request returns.
func (r *Receipts) Request(name [16]byte) (made Request, seq uint64, err error) {
	if err := r.queue.store.Acquire(); err != nil {
		return made, 0, err
	}
	defer r.queue.store.Release()
	made, seq, err = r.queue.receipts.named(name)
	if err != nil {
		return made, 0, err
	}
	return made, seq, r.queue.store.AwaitDurable()
}

// Refuse keeps a request that was refused for as long as the receipt of a write that ends now. seq is the number of the
// write that it has made; 0 if none. On a nearly full disk it keeps nothing: receipts give way there.
//
// Errors: [store.ErrFailed], [store.ErrClosed].
func (r *Receipts) Refuse(refused *Request, seq uint64) error {
	if err := r.queue.store.Acquire(); err != nil {
		return err
	}
	defer r.queue.store.Release()
	if r.queue.store.Low(int64(record.Overhead + len(refused.Namespace) + len(refused.Key) + len(refused.Answer))) { // guard 3.62
		return nil
	}
	return r.queue.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		r.queue.receipts.name(tx, refused, seq)
		return nil
	}))
}

// Await waits until the write of a pending receipt is no longer pending; then the caller reads the
// receipt again. It returns false if ctx ends first. Await does not trigger sending the write.
func (r *Receipts) Await(ctx context.Context, pending *Receipt) (ended bool) {
	for {
		changed := r.watch(pending.ID, pending.Seq)
		if changed == nil {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			r.leave(pending.ID, changed)
			return false
		}
	}
}

// watch returns a channel that the entry's next change closes, or nil if the write is no longer
// pending.
func (r *Receipts) watch(id ID, seq uint64) chan struct{} {
	l := r.queue.Readers
	l.Lock()
	defer l.Unlock()
	if v, ok := r.queue.index.Get(id).Visible(); !ok || v.Seq != seq {
		return nil
	}
	if l.watchers == nil {
		l.watchers = make(map[ID][]chan struct{})
	}
	changed := make(chan struct{})
	l.watchers[id] = append(l.watchers[id], changed)
	return changed
}

func (r *Receipts) leave(id ID, changed chan struct{}) {
	l := r.queue.Readers
	l.Lock()
	defer l.Unlock()
	left := slices.DeleteFunc(l.watchers[id], func(other chan struct{}) bool { return other == changed })
	if l.watchers[id] = left; len(left) == 0 {
		delete(l.watchers, id)
	}
}

func (r *Receipts) isPending(id ID, seq uint64) bool {
	r.queue.Readers.RLock()
	defer r.queue.Readers.RUnlock()
	v, ok := r.queue.index.Get(id).Visible()
	return ok && v.Seq == seq
}

// search looks for a pending write in the index. It takes the readers' lock for one chunk at a time, so
// that it holds up no writer for long. An index by sequence number would cost every write time and
// memory.
func (r *Receipts) search(ctx context.Context, seq uint64) (found Receipt, ok bool, err error) {
	r.searching.Lock()
	defer r.searching.Unlock()
	for _, space := range r.queue.spaces("") {
		for cursor, done := 0, false; !done; {
			if err := ctx.Err(); err != nil {
				return Receipt{}, false, err
			}
			r.queue.Readers.RLock()
			cursor, done = space.Walk(cursor, walkChunk, func(e *pending.Entry) {
				if v, _ := e.Visible(); v.Seq == seq {
					found, ok = Receipt{ID: e.ID(), Seq: seq, Op: v.Op, WrittenAt: v.WrittenAt}, true
				}
			})
			r.queue.Readers.RUnlock()
			if ok {
				return found, true, nil
			}
		}
	}
	return Receipt{}, false, nil
}
