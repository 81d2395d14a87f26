package journal

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

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
	sizes   *Sizes // may be nil
	readers *readersLock
	index   *pending.Index // guarded by readers
	budget  int64          // 0 means no bound
	reserve int64          // disk space to keep free, for error messages

	exact bool // Options.Exact
	// notBefore is Options.NotBefore; nil if not set. It is called in the store's order.
	notBefore func(ID) float64

	receipts *generations // of writes that have left the pending set
	// lastStamp is guarded by the store's order.
	lastStamp float64

	// superseded counts the writes that a newer one has replaced. The budget excludes them, because one
	// of the next batches removes them.
	superseded superseded
	garbage    garbage

	searching  sync.Mutex   // one search for the oldest entry at a time; taken before readers
	searchPace pending.Pace // guarded by searching
}

func newPendingSet(readers *readersLock, budget, reserve int64) *pendingSet {
	return &pendingSet{readers: readers, index: pending.New(), budget: budget, reserve: reserve}
}

// retired is the record of a pending write that a newer write has replaced.
type retired struct {
	id ID
	v  record.Version
}

// garbage holds the retired records that the next batches remove. It has its own lock, because records
// are added under the readers' lock but removed in the store's order.
type garbage struct {
	mu      sync.Mutex
	records []retired
}

func (g *garbage) add(r retired) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records = append(g.records, r)
}

const (
	// removedAtOnce bounds how much garbage one batch removes.
	removedAtOnce = 4096
	// removedBriefly replaces removedAtOnce while readers wait for the batch.
	removedBriefly = 64
)

func (g *garbage) take(atMost int) []retired {
	g.mu.Lock()
	defer g.mu.Unlock()
	records := g.records
	if g.records = nil; len(records) > atMost {
		records, g.records = records[:atMost], records[atMost:]
	}
	return records
}

// takeOf takes the garbage of one entry.
func (g *garbage) takeOf(id ID) (records []retired) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records = slices.DeleteFunc(g.records, func(r retired) bool {
		if r.id == id {
			records = append(records, r)
		}
		return r.id == id
	})
	return records
}

// superseded counts writes and adds up their sizes in bytes.
type superseded struct{ writes, bytes atomic.Int64 }

func (s *superseded) add(size int64) {
	s.writes.Add(1)
	s.bytes.Add(size)
}

func (s *superseded) remove(size int64) {
	s.writes.Add(-1)
	s.bytes.Add(-size)
}

// removeGarbage adds the removal of garbage to a batch.
func (p *pendingSet) removeGarbage(tx *store.Tx, brief bool) {
	atMost := removedAtOnce
	if brief {
		atMost = removedBriefly
	}
	p.removeRecords(tx, p.garbage.take(atMost)) // guard 3.13
}

func (p *pendingSet) removeRecords(tx *store.Tx, records []retired) {
	for i := range records {
		old := &records[i]
		tx.DeletePending(old.id, &old.v)
		p.superseded.remove(old.v.Size(old.id))
	}
}

// ready prepares a write to the entry: it loads the entry into the index, and checks the free space.
func (p *pendingSet) ready(id ID) error {
	if p.store.Failed() {
		return ErrFailed
	}
	if err := p.store.Look(); err != nil {
		return err
	}
	return p.faultIn(id)
}

// used returns the bytes of the budget that are in use. Dead letters of conflicts between hosts have a
// separate budget.
func (p *pendingSet) used(t record.Totals) int64 {
	writes := int64(t.Pending) - p.superseded.writes.Load()
	return t.PendingBytes - p.superseded.bytes.Load() + writes*(entryMemory-record.Overhead) + t.DeadBytes - t.ConflictBytes // guard 3.5
}

// room returns an error if a write adds more bytes than the budget has left, or writes more bytes than
// the disk has free (contract 3). A write that adds nothing always fits the budget.
func (p *pendingSet) room(t record.Totals, adds, writes int64) error {
	if used := p.used(t); p.budget > 0 && adds > 0 && used+adds > p.budget { // guard 3.1
		return fmt.Errorf("%w: pending writes and dead letters take %s of the %s that journal.max_bytes allows; it takes writes again when upstream has taken some of them, or dead letters are deleted",
			ErrFull, mebibytes(used), mebibytes(p.budget))
	}
	if p.store.Low(writes) {
		return fmt.Errorf("%w: the disk has less than the %s free that journal.disk_reserve keeps; it takes writes again when there is room", ErrFull, mebibytes(p.reserve))
	}
	return nil
}

// mebibytes formats a number of bytes for people.
func mebibytes(n int64) string {
	if n < 1<<20 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// add adds a write that is not visible yet. If the write is the entry's first, add also records the
// bytes that the write replaces.
func (p *pendingSet) add(id ID, w *pending.Write, replaces int32) {
	p.readers.Lock()
	defer p.readers.Unlock()
	if e := p.index.Add(id, w); replaces != 0 {
		e.Replaces = replaces
	}
}

// show makes a durable write visible. The caller holds the readers' lock.
func (p *pendingSet) show(id ID, w *pending.Write) {
	change := Change{ID: id, Seq: w.Seq, Written: true, Op: w.Op, Bytes: int(w.Bytes)}
	if replaced, ok := p.index.Show(w); ok {
		p.garbage.add(retired{id, replaced})
		change.Ended = endingOf(&replaced, ReceiptSuperseded) // guard 13.29
		change.Ended.By = w.Seq
	}
	p.readers.changed(change)
}

// isPending reports whether the entry has a pending write, visible or not.
func (p *pendingSet) isPending(id ID) bool {
	p.readers.RLock()
	defer p.readers.RUnlock()
	return p.waits(id)
}

// visible returns the entry's pending write that readers see; ok is false if there is none.
func (p *pendingSet) visible(id ID) (v record.Version, ok bool, err error) {
	if err := p.faultIn(id); err != nil {
		return v, false, err
	}
	p.readers.RLock()
	defer p.readers.RUnlock()
	v, ok = p.index.Get(id).Visible()
	return v, ok, nil
}
