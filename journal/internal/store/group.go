package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// groupBytes bounds one batch, in bytes. Pebble handles batches of half a memtable or more differently.
const groupBytes = 2 << 20

const (
	// awaitedQuarters is the share, in quarters, of the writers answered together that the next group
	// waits for. The others may be busy elsewhere.
	awaitedQuarters = 3
	// maxCommitDelay bounds that wait, so that one slow sync does not delay the next one.
	maxCommitDelay = 2 * time.Millisecond
	// publishedAtOnce bounds how many changes become visible under one hold of the readers' lock.
	publishedAtOnce = 64
)

// pipeline puts changes in order, and makes concurrent callers' changes durable with one sync.
type pipeline struct {
	*engine
	readers sync.Locker // Options.Readers
	applied func()      // called with order held after each batch
	// versionBytes adds up the sizes of the versions written since the store was opened.
	versionBytes atomic.Int64

	// order puts updates in order. Only its holder assigns sequence numbers and applies batches, so
	// that each batch's state record matches the store after that batch. It is taken before readers. It
	// is never held during an fsync. A change that reads under it, see Tx.Reader, reads some hundreds of
	// records at most.
	order  sync.Mutex
	totals record.Totals // guarded by order; includes the gathering changes
	tx     Tx            // guarded by order
	// scratch is the memory for a record that a batch copies. order guards it.
	scratch struct{ key, value []byte }
	// gathering is the group for the next sync. syncing is the group whose sync is in progress, or nil.
	// order guards both.
	gathering, syncing *group
	// syncSince is when the sync in progress started, on processClock; 0 if there is none.
	syncSince atomic.Int64
}

// processClock begins at 1, so that no time on it is 0.
var processClock = time.Now().Add(-1)

// SyncUnderWay returns how long the sync in progress has taken so far; 0 if there is none. It takes no
// lock, because the holder of order may hang in that sync.
func (p *pipeline) SyncUnderWay() time.Duration {
	since := p.syncSince.Load()
	if since == 0 {
		return 0
	}
	return time.Since(processClock) - time.Duration(since)
}

// group is the set of changes that one sync makes durable: those of concurrent callers. Each caller
// adds its own part to the batch. One of them leads: it applies and syncs the batch. While groups
// follow each other, a separate goroutine leads them.
type group struct {
	batch   *pebble.Batch // the part that is not applied yet; nil or empty if all is applied
	changes []Change      // changes that become visible after the sync, in order
	writes  int           // number of changes that journal a write
	done    chan struct{} // closed when the group is durable and visible, or err is set
	err     error

	enough chan struct{} // not nil while the leader delays the commit: closed when wanted writes have joined
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

// join returns a ticket with which the caller waits for everything added so far. If no sync is in
// progress, the caller leads its group at once, so a single caller never waits for others. Callers that
// arrive during a sync share the next one. The caller holds order, and releases it before it awaits the
// ticket.
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

// newest returns a ticket for a caller that changes nothing itself. The ticket waits for everything
// that has joined so far. The caller holds order.
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

// lead makes a started group durable, and then the groups that follow, so that no other goroutine must
// wake up first.
func (p *pipeline) lead(g *group) {
	for g != nil {
		began := time.Now()
		p.finish(g)
		p.delayCommit(g.writes*awaitedQuarters/4, min(time.Since(began), maxCommitDelay))
		g = p.next()
	}
}

// delayCommit waits until n writes have joined the next group, or atMost has passed. Writers that were
// answered together come back together. If the first of them started a sync alone, the others would
// wait for that sync and then share the next, and nobody would join during the next one.
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

// expect returns a channel that is closed when n writes have joined the next group, or nil if they have
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

// beginSync applies the rest of the gathering group, and starts the sync of the whole group.
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

// finish waits for the sync of a started group, shows its changes, and releases its callers.
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
