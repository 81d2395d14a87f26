package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// groupBytes bounds one batch, in bytes: Pebble handles batches of half a memtable and
// more in another way.
const groupBytes = 2 << 20

const (
	// awaitedQuarters is the share, in quarters, of the writers answered together for which the next
	// group waits; the others may have something else to do.
	awaitedQuarters = 3
	// maxCommitDelay bounds that wait: a sync that was slow for once does not make the
	// next one late.
	maxCommitDelay = 2 * time.Millisecond
	// publishedAtOnce bounds how many changes become visible under one hold of the
	// readers' lock.
	publishedAtOnce = 64
)

// pipeline puts changes in order, and makes the changes of callers that come at the same time
// durable with one sync.
type pipeline struct {
	*engine
	readers     sync.Locker              // Options.Readers
	beforeApply func(tx *Tx, brief bool) // Options.BeforeApply
	applied     func()                   // called with order held after each batch

	// order puts updates in order: its holder is the only one that assigns sequence
	// numbers and applies batches, so that the state record of each batch is true of the
	// store as that batch leaves it. It is taken before readers and never held during an
	// fsync, nor while Pebble reads for a caller that can wait.
	order  sync.Mutex
	totals record.Totals // guarded by order; counts what gathers too
	tx     Tx            // guarded by order
	// showing is true while the holder of order holds readers too: batches are brief then.
	showing bool
	// gathering is the group for the next sync, and syncing the group whose sync is under way, or
	// nil. order guards both.
	gathering, syncing *group
	// syncSince is the start of the sync under way, on processClock; 0 if there is none.
	syncSince atomic.Int64
}

// processClock begins at 1: no time on it is 0.
var processClock = time.Now().Add(-1)

// SyncUnderWay returns how long the sync under way has taken so far; 0 if there is none. It takes
// no lock: the holder of order may hang in that sync.
func (p *pipeline) SyncUnderWay() time.Duration {
	since := p.syncSince.Load()
	if since == 0 {
		return 0
	}
	return time.Since(processClock) - time.Duration(since)
}

// group is the set of changes that one sync makes durable: those of callers that wait at the same
// time. Each caller fills its own part into the batch. One of them leads: it applies the batch and
// syncs it. While groups follow each other, a separate goroutine leads them.
type group struct {
	batch   *pebble.Batch // the part that has not been applied; nil or empty if all has
	changes []Change      // that become visible then, in their order
	writes  int           // how many of them journal a write
	done    chan struct{} // closed when all of it is durable and visible, or err is set
	err     error

	enough chan struct{} // not nil while the leader delays the commit: closed when wanted writes have come
	wanted int
}

// ticket is a caller's place in a group. The zero ticket waits for nothing.
type ticket struct {
	group *group
	leads bool
}

// gather returns the group for the next sync. The caller holds order.
func (p *pipeline) gather() *group {
	if p.gathering == nil {
		p.gathering = &group{done: make(chan struct{})}
	}
	return p.gathering
}

// join returns a ticket with which the caller waits for everything that was filled so far. A caller
// that comes while no sync is under way leads its group at once, so a single caller waits for
// nobody else; callers that come during one sync share the next. The caller holds order, and
// releases it before it awaits the ticket.
func (p *pipeline) join(c Change) ticket {
	g := p.gather()
	g.changes = append(g.changes, c)
	if g.enough != nil && g.writes >= g.wanted {
		close(g.enough)
		g.enough = nil
	}
	leads := p.syncing == nil // guard 5.2
	if leads {
		p.startSync()
	}
	return ticket{g, leads}
}

// newest returns a ticket for a caller that has nothing to make durable itself: it waits for
// everything that has joined so far. The caller holds order.
func (p *pipeline) newest() ticket {
	if p.gathering != nil && len(p.gathering.changes) > 0 {
		return ticket{group: p.gathering}
	}
	return ticket{group: p.syncing}
}

// await waits until the ticket's group is durable and visible.
func (p *pipeline) await(t ticket) error {
	if t.group == nil {
		return nil
	}
	if t.leads {
		p.finish(t.group)
		if next := p.next(); next != nil {
			go p.lead(next)
		}
	}
	<-t.group.done
	return t.group.err
}

// lead makes a started group durable, and then the groups that follow, so that no other goroutine
// has to wake up first.
func (p *pipeline) lead(g *group) {
	for g != nil {
		began := time.Now()
		p.finish(g)
		p.delayCommit(g.writes*awaitedQuarters/4, min(time.Since(began), maxCommitDelay))
		g = p.next()
	}
}

// delayCommit waits until n writes have joined the next group, but no longer than atMost. Writers
// that were answered together come back together: if the first of them started a sync alone, the
// others would wait for it and then share the next, during which nobody would come.
func (p *pipeline) delayCommit(n int, atMost time.Duration) {
	if n == 0 {
		return
	}
	enough := p.expect(n)
	if enough == nil {
		return
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-enough:
	case <-timer.C:
	}
}

// expect returns a channel that is closed when n writes have joined the next group; nil if they have
// joined already.
func (p *pipeline) expect(n int) <-chan struct{} {
	p.order.Lock()
	defer p.order.Unlock()
	g := p.gather()
	if g.writes >= n {
		return nil
	}
	g.wanted, g.enough = n, make(chan struct{})
	return g.enough
}

func (p *pipeline) next() *group {
	p.order.Lock()
	defer p.order.Unlock()
	return p.startSync()
}

// startSync starts the sync of the gathering group, if a caller waits for it, and returns the group.
// The caller holds order.
func (p *pipeline) startSync() *group {
	g := p.gathering
	if g == nil || len(g.changes) == 0 {
		p.syncing = nil
		p.syncSince.Store(0)
		return nil
	}
	p.syncSince.Store(int64(time.Since(processClock)))
	g.err = p.beginSync(g)
	p.gathering, p.syncing = nil, g
	return g
}

// beginSync applies the rest of the gathering group, and starts the sync of all of it.
func (p *pipeline) beginSync(g *group) (err error) {
	defer p.recoverPanic(&err)
	if g.batch != nil && !g.batch.Empty() {
		return p.apply(g, pebble.Sync)
	}
	if g.batch == nil {
		g.batch = p.db.NewBatch()
	}
	if err := g.batch.LogData(nil, nil); err != nil {
		return err
	}
	return p.applyBatch(g.batch, pebble.Sync)
}

// finish waits for the sync of a started group, and lets its callers go on.
func (p *pipeline) finish(g *group) {
	defer close(g.done)
	defer p.recoverPanic(&g.err)
	if g.err == nil {
		g.err = p.wait(g.batch) // guard 1.1, 2.1, 7.7
	}
	for rest := g.changes; g.err == nil && len(rest) > 0; {
		n := min(len(rest), publishedAtOnce)
		p.publish(rest[:n])
		rest = rest[n:]
	}
}

func (p *pipeline) publish(changes []Change) {
	p.readers.Lock()
	defer p.readers.Unlock()
	for _, c := range changes {
		c.Durable()
	}
}
