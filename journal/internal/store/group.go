package store

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// groupBytes bounds one batch, in bytes: Pebble handles batches of half a memtable and
// more in another way.
const groupBytes = 2 << 20

const (
	// returning is how many quarters of the writers that were answered together the next
	// group waits for: to wait for all would be to wait for those with something else to
	// do.
	returning = 3
	// maxCommitDelay bounds that wait: a sync that was slow for once does not make the
	// next one late.
	maxCommitDelay = 2 * time.Millisecond
	// publishedAtOnce bounds how many changes become visible under one hold of the
	// readers' lock.
	publishedAtOnce = 64
)

// group is what one sync makes durable: the changes of callers that wait at the same time.
// Each fills its own part into the batch. One of them leads: it applies the batch and has
// it synced. As long as groups follow each other, a goroutine of its own leads them.
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

// gather is the group that the next sync makes durable. The caller holds order.
func (s *Store) gather() *group {
	if s.gathering == nil {
		s.gathering = &group{done: make(chan struct{})}
	}
	return s.gathering
}

// join has the caller wait for everything that was filled so far. A caller that comes
// while no sync is under way leads: its group starts at once. So one caller alone waits
// for nobody else, and callers that come during one sync share the next. The caller holds
// order, and awaits the ticket without it.
func (s *Store) join(c Change) ticket {
	g := s.gather()
	g.changes = append(g.changes, c)
	if g.enough != nil && g.writes >= g.wanted {
		close(g.enough)
		g.enough = nil
	}
	leads := s.syncing == nil
	if leads {
		s.startSync()
	}
	return ticket{g, leads}
}

// newest is the ticket of a caller with nothing of its own to make durable: it waits for
// everything that has joined so far. The caller holds order.
func (s *Store) newest() ticket {
	if s.gathering != nil && len(s.gathering.changes) > 0 {
		return ticket{group: s.gathering}
	}
	return ticket{group: s.syncing}
}

// await returns when the ticket's group is durable and visible.
func (s *Store) await(t ticket) error {
	if t.group == nil {
		return nil
	}
	if t.leads {
		s.finish(t.group)
		if next := s.next(); next != nil {
			go s.lead(next)
		}
	}
	<-t.group.done
	return t.group.err
}

// lead makes a started group durable, and then those that follow: nobody has to be woken
// for the next one to start.
func (s *Store) lead(g *group) {
	for g != nil {
		began := time.Now()
		s.finish(g)
		s.delayCommit(g.writes*returning/4, min(time.Since(began), maxCommitDelay))
		g = s.next()
	}
}

// delayCommit waits until n writes have joined the next group, but no longer than atMost.
// Writers that were answered together are about to come back together: if the first of
// them started a sync alone, the others would wait for it and then share one, during which
// nobody is left to come.
func (s *Store) delayCommit(n int, atMost time.Duration) {
	if n == 0 {
		return
	}
	enough := s.expect(n)
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

// expect returns a channel that is closed when n writes have joined the next group, nil
// if they have.
func (s *Store) expect(n int) <-chan struct{} {
	s.order.Lock()
	defer s.order.Unlock()
	g := s.gather()
	if g.writes >= n {
		return nil
	}
	g.wanted, g.enough = n, make(chan struct{})
	return g.enough
}

func (s *Store) next() *group {
	s.order.Lock()
	defer s.order.Unlock()
	return s.startSync()
}

// startSync begins to make the gathering group durable, if anybody waits for it, and
// returns it. The caller holds order.
func (s *Store) startSync() *group {
	g := s.gathering
	if g == nil || len(g.changes) == 0 {
		s.syncing = nil
		return nil
	}
	g.err = s.beginSync(g)
	s.gathering, s.syncing = nil, g
	return g
}

// beginSync applies the rest of the gathering group, and has all of it synced.
func (s *Store) beginSync(g *group) (err error) {
	defer s.recoverPanic(&err)
	if g.batch != nil && !g.batch.Empty() {
		return s.apply(g, pebble.Sync)
	}
	if g.batch == nil {
		g.batch = s.db.NewBatch()
	}
	if err := g.batch.LogData(nil, nil); err != nil {
		return err
	}
	return s.hand(g.batch, pebble.Sync)
}

// finish ends the wait of a started group.
func (s *Store) finish(g *group) {
	defer close(g.done)
	defer s.recoverPanic(&g.err)
	if g.err == nil {
		g.err = s.wait(g.batch)
	}
	for rest := g.changes; g.err == nil && len(rest) > 0; {
		n := min(len(rest), publishedAtOnce)
		s.publish(rest[:n])
		rest = rest[n:]
	}
}

func (s *Store) publish(changes []Change) {
	s.opts.Readers.Lock()
	defer s.opts.Readers.Unlock()
	for _, c := range changes {
		c.Durable()
	}
}
