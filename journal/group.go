package journal

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// groupBytes bounds what gathers in one batch, in bytes: Pebble takes batches of half a
// memtable and more another way.
const groupBytes = 2 << 20

const (
	// returning is how many quarters of those whose writes were answered together are
	// waited for: to wait for all would be to wait for those who have something else to do.
	returning = 3
	// musterAtMost bounds that wait: after a sync that took long for once, the next one
	// will not.
	musterAtMost = 2 * time.Millisecond
)

// group is what one sync makes durable: the writes and other changes of callers who wait
// at the same time. Each puts its own part into the batch that gathers; one of them, and
// then a goroutine of its own as long as others follow, applies it and has it synced.
type group struct {
	batch  *pebble.Batch // what of it has not been applied; nil or empty if all has
	writes []arrival     // that become visible then, in their order
	joined int           // how many wait for it
	done   chan struct{} // closed when all of it is durable and visible, or err is set
	err    error

	enough chan struct{} // not nil while its leader waits: closed when it has wanted writes
	wanted int
}

// arrival is a write on its way to being visible.
type arrival struct {
	node    *node
	version *version
}

// ticket is a caller's place in a group. That of nobody waits for nothing.
type ticket struct {
	group *group
	leads bool
}

// gathered is the batch of the group that the next sync makes durable. The caller holds
// commitMu, and joins the group after it has put something in.
func (j *Journal) gathered() *pebble.Batch {
	g := j.gather()
	if g.batch == nil {
		g.batch = j.db.NewBatch()
	}
	return g.batch
}

func (j *Journal) gather() *group {
	if j.gathering == nil {
		j.gathering = &group{done: make(chan struct{})}
	}
	return j.gathering
}

// join has the caller wait for all that has been put into batches so far, and makes its
// writes visible then. Whoever comes while no sync is under way leads: its group sets out
// at once. So one caller alone waits for nobody else, and those who come during one sync
// share the next. The caller holds commitMu, and awaits the ticket without it.
func (j *Journal) join(writes ...arrival) ticket {
	g := j.gather()
	g.writes = append(g.writes, writes...)
	g.joined++
	if g.enough != nil && len(g.writes) >= g.wanted {
		close(g.enough)
		g.enough = nil
	}
	leads := j.syncing == nil
	if leads {
		j.setOut()
	}
	return ticket{g, leads}
}

// newest is the ticket of whoever waits for others only: for all that has joined so far.
// The caller holds commitMu.
func (j *Journal) newest() ticket {
	if j.gathering != nil && j.gathering.joined > 0 {
		return ticket{group: j.gathering}
	}
	return ticket{group: j.syncing}
}

// await returns when what the ticket is for is durable and visible.
func (j *Journal) await(t ticket) error {
	if t.group == nil {
		return nil
	}
	if t.leads {
		j.finish(t.group)
		if next := j.next(); next != nil {
			go j.lead(next)
		}
	}
	<-t.group.done
	return t.group.err
}

// lead makes a group durable that has set out, and then those that follow: nobody has to
// be woken for the next one to set out.
func (j *Journal) lead(g *group) {
	for g != nil {
		began := time.Now()
		j.finish(g)
		j.muster(len(g.writes)*returning/4, min(time.Since(began), musterAtMost))
		g = j.next()
	}
}

// muster waits until n writes have joined the next group, but no longer than patience.
// Those who were answered together are about to come back together: if the first of them
// set out alone, the others would wait for its sync and then share one, during which
// nobody is left to come.
func (j *Journal) muster(n int, patience time.Duration) {
	if n == 0 {
		return
	}
	enough := j.expect(n)
	if enough == nil {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-enough:
	case <-timer.C:
	}
}

// expect returns a channel that is closed when n writes have joined the next group, nil
// if they have.
func (j *Journal) expect(n int) <-chan struct{} {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	g := j.gather()
	if len(g.writes) >= n {
		return nil
	}
	g.wanted, g.enough = n, make(chan struct{})
	return g.enough
}

func (j *Journal) next() *group {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	return j.setOut()
}

// setOut begins to make the group durable that has gathered, if there is one, and
// returns it. The caller holds commitMu.
func (j *Journal) setOut() *group {
	g := j.gathering
	if g == nil || g.joined == 0 {
		j.syncing = nil
		return nil
	}
	j.gathering, j.syncing = nil, g
	g.err = j.beginSync(g)
	return g
}

// beginSync applies what of a group has not been applied, and has all of it synced.
func (j *Journal) beginSync(g *group) (err error) {
	defer j.survive(&err)
	if g.batch == nil {
		g.batch = j.db.NewBatch()
	}
	if !g.batch.Empty() {
		return j.apply(g.batch, pebble.Sync)
	}
	if err := g.batch.LogData(nil, nil); err != nil {
		return err
	}
	return j.hand(g.batch, pebble.Sync)
}

// applyGathered applies what has gathered so far, so that the store is what the totals
// say. The caller holds commitMu.
func (j *Journal) applyGathered() error {
	g := j.gathering
	if g == nil || g.batch == nil || g.batch.Empty() {
		return nil
	}
	batch := g.batch
	g.batch = nil
	return j.apply(batch, pebble.NoSync)
}

// finish ends the wait of a group that has set out.
func (j *Journal) finish(g *group) {
	defer close(g.done)
	defer j.survive(&g.err)
	if g.err == nil {
		g.err = j.wait(g.batch)
	}
	if g.err == nil {
		j.publish(g.writes)
	}
}

// survive makes a panic the end of the journal: a batch that is half made is not to be
// made good for.
func (j *Journal) survive(err *error) {
	if p := recover(); p != nil {
		j.fail(fmt.Errorf("journaling: panic: %T", p))
		*err = ErrFailed
	}
}

// change makes a batch of what fill puts into it, and returns when it is durable.
func (j *Journal) change(fill func(*pebble.Batch) error) error {
	t, err := j.begin(func(batch *pebble.Batch) ([]arrival, error) { return nil, fill(batch) })
	return j.outcome(t, err)
}

// outcome is the error of what has a ticket: also of what was refused, perhaps because of
// something that is not durable yet.
func (j *Journal) outcome(t ticket, err error) error {
	if failed := j.await(t); failed != nil {
		return failed
	}
	return err
}

// begin applies a batch of what fill puts into it. If fill fails it has to leave no trace
// elsewhere; there is a ticket then too.
func (j *Journal) begin(fill func(*pebble.Batch) ([]arrival, error)) (t ticket, err error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	defer j.survive(&err)
	batch, err := j.newBatch()
	if err != nil {
		return ticket{}, err
	}
	writes, err := fill(batch)
	if err != nil {
		return j.newest(), errors.Join(err, batch.Close())
	}
	if err := j.apply(batch, pebble.NoSync); err != nil {
		return ticket{}, err
	}
	return j.join(writes...), nil
}

// newBatch is a batch of its own, to be applied under the same hold of commitMu. All
// that came before is in the store.
func (j *Journal) newBatch() (*pebble.Batch, error) {
	if j.failed.Load() {
		return nil, ErrFailed // what is read for it may have been lost
	}
	if err := j.applyGathered(); err != nil {
		return nil, err
	}
	return j.db.NewBatch(), nil
}
