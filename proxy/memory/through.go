package memory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// throughWrites holds the write-throughs in flight. Upstream's answers may or may not show such a
// write. So a reader waits until the write-through is over, and sees no value that vanishes again
// (contract 7).
type throughWrites struct {
	mu     sync.Mutex // guards writes
	writes map[*throughWrite]struct{}
}

func (ps *throughWrites) begin(p *throughWrite) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.writes[p] = struct{}{}
}

func (ps *throughWrites) end(p *throughWrite) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.writes, p)
}

// wait returns when the current write-throughs of an entry or, without a key, of a namespace are over. Its
// error is ctx's.
func (ps *throughWrites) wait(ctx context.Context, id journal.ID) error {
	var now []*throughWrite
	ps.mu.Lock()
	for p := range ps.writes {
		if p.write.ID == id || id.Key == "" && p.write.Namespace == id.Namespace {
			now = append(now, p)
		}
	}
	ps.mu.Unlock()
	for _, p := range now {
		select {
		case <-p.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// longestWait bounds how long a write-through waits for upstream.
const longestWait = time.Hour

type throughWrite struct {
	m      *Memory
	write  journal.NewWrite
	c      Conditions
	before uint64       // see Request.Before
	lease  *cache.Lease // taken in the entry's turn
	over   chan struct{}
}

// writeThrough lets upstream carry a write out, and waits for that. applied is the caller's preferred wait,
// as granted; negative if there is none.
func (m *Memory) writeThrough(ctx context.Context, q *Request, write journal.NewWrite, shown shown, wanted Conditions, applied time.Duration) (Result, error) {
	written, settled, err := m.sendThrough(ctx, q, write, wanted)
	if errors.Is(err, errOtherWriter) { // its caller will read the new state; if this fails, the watch brings it
		ctx, cancel := context.WithTimeout(ctx, fallbackAfter)
		defer cancel()
		_ = m.fetchEntry(ctx, write.ID)
	}
	if err != nil {
		return Result{}, err
	}
	r := Result{
		Status: statusOK, id: write.ID, op: write.Op, shown: shown, seq: written.Seq, state: "settled", through: true,
		tagged: write.Op == journal.Put && written.Seq != 0, applied: applied,
	}
	if !settled { // an earlier write may still land over it: then it is read back
		r.state = "pending"
	}
	return r, nil
}

func (m *Memory) sendThrough(
	ctx context.Context, q *Request, write journal.NewWrite, wanted Conditions,
) (written journal.Write, settled bool, err error) {
	if !q.extend(longestWait) { // guard 16.52
		return written, false, ErrCrowded
	}
	ctx, cancel := m.tasks.Patience(ctx, longestWait)
	defer cancel()
	p := &throughWrite{m: m, write: write, c: wanted, before: q.Before, over: make(chan struct{})}
	defer p.end()
	m.traces.Note(write.String(), 0, q.Trace)
	defer m.traces.Forget(write.String(), q.Trace)
	written, settled, err = m.flusher.WriteThrough(ctx, write, p.ready)
	switch {
	case errors.Is(err, journal.ErrChanged):
		if m.exact && wanted.given() {
			return written, false, errOtherWriter
		}
		return written, false, errNotAsMatched // a newer write would undo this one
	case errors.Is(err, journal.ErrAbsent):
		return written, false, p.absent()
	}
	return written, settled, err
}

// ready decides, in the entry's turn, whether to send the write.
func (p *throughWrite) ready() (unchanged func(newest uint64) bool, err error) {
	err = tasks.Recovered(p.m.fetches.logger, func() error {
		for {
			unchanged, err = p.look()
			if !isOvertaken(err) {
				return err
			}
		}
	})
	return unchanged, err
}

// look refuses the write if the entry does not meet the conditions. If the entry changes while look begins
// the write-through, the error is errOvertaken: look again.
func (p *throughWrite) look() (unchanged func(newest uint64) bool, err error) {
	p.release()
	p.m.through.end(p) // guard 14.20
	p.lease = p.m.cache.Lease(entryKey(p.write.ID))
	if p.c.given() {
		seq, changes, err := p.m.meets(p.write, p.c)
		if err != nil {
			return nil, err
		}
		p.m.through.begin(p)
		if p.lease.Changes() != changes {
			return nil, errOvertaken
		}
		return func(newest uint64) bool { return newest == seq }, nil
	}
	if p.before != 0 {
		state, err := p.m.journal.Lookup(p.write.ID)
		if err != nil {
			return nil, err
		}
		if state.WrittenAs >= p.before { // guard 13.73
			return nil, ErrLater
		}
	}
	if p.write.Op == journal.Delete {
		found, err := p.m.findEntry(p.write.ID, AnyAge)
		if err != nil {
			return nil, err
		}
		if found.freshness == cache.Fresh && found.item.Body == nil {
			return nil, wire.NotFound(p.write.Namespace, p.write.Key)
		}
	}
	p.m.through.begin(p)
	return nil, nil
}

func (p *throughWrite) release() {
	if p.lease != nil {
		p.lease.Release()
		p.lease = nil
	}
}

func (p *throughWrite) end() {
	p.m.through.end(p)
	close(p.over)
	p.release()
}

// absent accepts that upstream does not hold the entry to delete.
func (p *throughWrite) absent() error {
	id, unchanged := p.write.ID, func() bool { return !p.lease.Revoked() }
	err := p.m.journal.Trust.AcceptAbsence(id, unchanged)
	if err == nil {
		_, err = p.m.rememberAbsence(id, func() bool { return p.lease.Changes() == 1 }) // that of the journal
	}
	if err != nil && !errors.Is(err, journal.ErrChanged) {
		return err
	}
	return wire.NotFound(p.write.Namespace, p.write.Key)
}

// carriesThrough reports whether upstream carries a write out before it is acknowledged: because of the
// namespace's settings, or because its caller waits for a condition to hold upstream. applied is that
// wait; negative if there is none.
func (m *Memory) carriesThrough(namespace string, q *Request, wanted Conditions) (applied time.Duration, through bool) {
	if m.writesThrough(namespace) {
		return -1, true
	}
	if m.exact && wanted.given() && q.Waits && q.Wait != 0 {
		return q.Wait, true
	}
	return -1, false
}

// errOtherWriter refuses a write whose condition held here and not upstream.
var errOtherWriter = unmet("the entry is not as the condition names it: another writer has changed it, so read it again")

// ErrCrowded refuses a request that may wait for long: too many wait already, and nothing of this one was sent.
var ErrCrowded error = crowded{}

type crowded struct{}

func (crowded) Error() string { return "too many requests wait at this daemon: try again later" }

func (crowded) RetryAfter() time.Duration { return 5 * time.Second }

func (crowded) WriteStatus() int { return statusUnavailable }
