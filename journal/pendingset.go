package journal

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// entryMemory is the number of bytes that the budget counts for a pending write on top of its
// namespace, key and value: for the index, the flusher's schedule and the garbage collector's overhead.
// A test compares it with the memory of the whole process.
const entryMemory = 512

// pendingSet holds the index of pending writes, and adds writes to it.
type pendingSet struct {
	store   *store.Store
	readers *readersLock
	index   *pending.Index // guarded by readers
	budget  int64          // 0 means no bound
	reserve int64          // disk space to keep free, for error messages

	full  func(namespace string) bool // Options.Full; may be nil
	exact bool                        // Options.Exact
	named func(namespace string) bool // Options.Named; may be nil
	// notBefore is Options.NotBefore; nil if not set. It is called in the store's order.
	notBefore func(ID) float64

	receipts *generations // of writes that have left the pending set
	// lastStamp is guarded by the store's order.
	lastStamp float64

	searching  sync.Mutex   // one search for the oldest entry at a time; taken before readers
	searchPace pending.Pace // guarded by searching
}

func newPendingSet(readers *readersLock, budget, reserve int64) *pendingSet {
	return &pendingSet{readers: readers, index: pending.New(), budget: budget, reserve: reserve}
}

// ready prepares a write to the entry: it loads the entry into the index, and checks the free space.
func (p *pendingSet) ready(id ID) error {
	if p.store.Failed() {
		return ErrFailed
	}
	p.store.Look()
	return p.faultIn(id)
}

// used returns the bytes of the budget that are in use. Lost versions do not count: they have their own room.
func (p *pendingSet) used(t record.Totals) int64 {
	return t.PendingBytes + int64(t.Pending)*(entryMemory-record.Overhead) + t.DeadBytes // guard 3.5
}

// room returns an error if a write adds more bytes than the budget has left, or writes more bytes than
// the disk has free (contract 3). A write that adds nothing always fits the budget.
func (p *pendingSet) room(t record.Totals, adds, writes int64) error {
	if used := p.used(t); p.budget > 0 && adds > 0 && used+adds > p.budget { // guard 3.1
		return fmt.Errorf("%w: pending writes and dead letters take %s of the %s that journal.max_bytes allows; it takes writes again when upstream has taken some of them, or dead letters are deleted",
			ErrFull, mebibytes(used), mebibytes(p.budget))
	}
	if p.store.Low(writes) {
		return fmt.Errorf("%w: the disk, or this user's quota on it, has less than the %s free that journal.disk_reserve keeps (a free inode counts as 1 MiB: df, df -i); it takes writes again when there is room", ErrFull, mebibytes(p.reserve))
	}
	return nil
}

// fullShare is the divisor of Options.MaxBytes that bounds the pending writes of a full namespace.
const fullShare = 8

// roomIn returns an error if a put would have the pending writes of a full namespace take more than their share of the
// budget. grows is what the write adds to what they take.
func (p *pendingSet) roomIn(namespace string, op Op, grows int64) error {
	if op != Put || p.budget == 0 || grows <= 0 || p.full == nil {
		return nil
	}
	p.readers.RLock()
	taken := int64(0)
	if space := p.index.Space(namespace); space != nil {
		entries, bytes := space.Newest()
		taken = bytes + int64(entries)*(entryMemory-record.Overhead)
	}
	p.readers.RUnlock()
	if most := p.budget / fullShare; taken+grows > most && p.full(namespace) { // guard 18.45
		return &NamespaceFullError{Namespace: namespace, Pending: taken, Most: most}
	}
	return nil
}

func mebibytes(n int64) string {
	if n < 1<<20 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// add adds a write that is not visible yet.
func (p *pendingSet) add(id ID, w *pending.Write) {
	p.readers.Lock()
	defer p.readers.Unlock()
	p.index.Add(id, w)
}

// show makes a durable write visible. The caller holds the readers' lock.
func (p *pendingSet) show(id ID, w *pending.Write, author string) {
	change := Change{ID: id, Seq: w.Seq, Written: true, Op: w.Op, Bytes: int(w.Bytes), Author: author}
	if replaced, ok := p.index.Show(w); ok {
		change.Ended = endingOf(&replaced, ReceiptSuperseded) // guard 13.29
		change.Ended.By = w.Seq
	}
	p.readers.changed(change)
}

// latest returns the entry's newest pending write, visible or not; ok is false if there is none.
func (p *pendingSet) latest(id ID) (v record.Pending, ok bool) {
	p.readers.RLock()
	defer p.readers.RUnlock()
	return p.index.Get(id).Latest()
}

// isPending reports whether the entry has a pending write, visible or not.
func (p *pendingSet) isPending(id ID) bool {
	_, ok := p.latest(id)
	return ok
}

// isComing reports whether the entry has a write that readers do not see yet.
func (p *pendingSet) isComing(id ID) bool {
	p.readers.RLock()
	defer p.readers.RUnlock()
	return p.index.Get(id).Coming()
}

// needs reports whether a version must stay for a pending write: it is the write that readers see, or a
// newer one. It must also stay while the index does not know the entry. The caller holds the readers'
// lock.
func (p *pendingSet) needs(id ID, seq uint64) bool {
	if !p.index.Known(id) { // guard 3.44
		return true
	}
	e := p.index.Get(id)
	if _, waits := e.Latest(); !waits {
		return false
	}
	visible, ok := e.Visible()
	return !ok || seq >= visible.Seq // guard 3.39
}

// visible returns the entry's pending write that readers see; ok is false if there is none.
func (p *pendingSet) visible(id ID) (v record.Pending, ok bool, err error) {
	if err := p.faultIn(id); err != nil {
		return v, false, err
	}
	p.readers.RLock()
	defer p.readers.RUnlock()
	v, ok = p.index.Get(id).Visible()
	return v, ok, nil
}

// keepsBase reports whether an answer of upstream leaves the copy that a pending write is based on.
func (p *pendingSet) keepsBase(namespace string) bool {
	return p.exact || p.named != nil && p.named(namespace)
}
