package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// passing are the writes through that are on their way upstream, or just over. Upstream's answers
// of that time may or may not show such a write. A reader that has asked upstream waits until the
// write is over, and so sees no value that vanishes again (contract 7).
type passing struct {
	mu     sync.Mutex // guards writes
	writes map[*passage]struct{}
}

func newPassing() *passing { return &passing{writes: make(map[*passage]struct{})} }

func (ps *passing) begin(p *passage) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.writes[p] = struct{}{}
}

func (ps *passing) end(p *passage) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.writes, p)
}

// wait returns when those that pass now are over: of an entry or, without a key, of a
// namespace. Its error is ctx's.
func (ps *passing) wait(ctx context.Context, id journal.ID) error {
	var now []*passage
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

// passage is one write through.
type passage struct {
	m     *memory
	write journal.NewWrite
	c     conditions
	lease *cache.Lease // taken when the entry's turn had come
	over  chan struct{}
}

// writeThrough has upstream carry a write out. It returns when the write is over, which may
// take longer than the server's own limits allow.
func (m *memory) writeThrough(
	ctx context.Context, w http.ResponseWriter, write journal.NewWrite, wanted conditions, c *call,
) (written journal.Write, settled bool, err error) {
	if written, settled, err = passThrough(ctx, m, w, write, wanted, c); errors.Is(err, errBeaten) {
		learnWinner(ctx, m, write.ID)
	}
	return written, settled, err
}

func passThrough(
	ctx context.Context, m *memory, w http.ResponseWriter, write journal.NewWrite, wanted conditions, c *call,
) (written journal.Write, settled bool, err error) {
	m.used.note(write.Namespace)
	// If the deadline cannot be moved, the answer may be lost, as any can.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	defer func() { _ = allow(w, 0) }()
	ctx, cancel := m.tasks.patience(ctx, maxFlushTimeout)
	defer cancel()
	p := &passage{m: m, write: write, c: wanted, over: make(chan struct{})}
	defer p.end()
	m.traces.Note(write.String(), 0, c.trace)
	defer m.traces.Forget(write.String(), c.trace)
	written, settled, err = m.flusher.WriteThrough(ctx, write, p.ready)
	switch {
	case errors.Is(err, journal.ErrChanged):
		if write.Conditional {
			return written, false, errBeaten
		}
		return written, false, errNotAsMatched // a newer write undoes this one
	case errors.Is(err, journal.ErrAbsent):
		return written, false, p.absent()
	case err == nil:
		c.outcome = wasThrough
		m.metrics.acknowledged.Add(1)
		m.metrics.awaited.Add(1)
	}
	return written, settled, err
}

// ready decides in the entry's turn whether the write is sent.
func (p *passage) ready() (unchanged func(newest uint64) bool, err error) {
	err = recovered(p.m.fetches.logger, func() error {
		for {
			unchanged, err = p.look()
			if !isOvertaken(err) {
				return err
			}
			p.m.passing.end(p)
		}
	})
	return unchanged, err
}

// look refuses the write if the entry is not as it should be. Nobody has seen another state
// when the write begins to pass.
func (p *passage) look() (unchanged func(newest uint64) bool, err error) {
	p.release()
	p.lease = p.m.cache.Lease(entryKey(p.write.ID))
	if p.c.given() {
		seq, changes, err := p.m.meets(p.write, p.c)
		if err != nil {
			return nil, err
		}
		p.m.passing.begin(p)
		if p.lease.Changes() != changes {
			return nil, errOvertaken
		}
		return func(newest uint64) bool { return newest == seq }, nil
	}
	if p.write.Op == journal.Delete {
		found, err := p.m.findEntry(p.write.ID, anyAge)
		if err != nil {
			return nil, err
		}
		if found.freshness == cache.Fresh && found.item.Body == nil {
			return nil, wire.NotFound(p.write.Namespace, p.write.Key)
		}
	}
	p.m.passing.begin(p)
	return nil, nil
}

func (p *passage) release() {
	if p.lease != nil {
		p.lease.Release()
		p.lease = nil
	}
}

func (p *passage) end() {
	p.m.passing.end(p)
	close(p.over)
	p.release()
}

// absent takes in that upstream does not hold the entry, which was to be deleted.
func (p *passage) absent() error {
	id, unchanged := p.write.ID, func() bool { return !p.lease.Revoked() }
	err := p.m.journal.Belief.Absent(id, unchanged)
	if err == nil {
		_, err = p.m.rememberAbsence(id, func() bool { return p.lease.Changes() == 1 }) // that of the journal
	}
	if err != nil && !errors.Is(err, journal.ErrChanged) {
		return err
	}
	return wire.NotFound(p.write.Namespace, p.write.Key)
}

func putThrough(
	ctx context.Context, m *memory, w http.ResponseWriter, write journal.NewWrite, wanted conditions, c *call,
) error {
	written, settled, err := m.writeThrough(ctx, w, write, wanted, c)
	if err != nil {
		return err
	}
	if written.Seq != 0 {
		w.Header()["Etag"] = []string{writeTag(written.Seq, write.Value)}
	}
	acknowledgeThrough(w, c, written, settled, wire.AppendStored(nil, write.Namespace, write.Key, wire.CodePoints(write.Value)))
	return nil
}

func deleteThrough(
	ctx context.Context, m *memory, w http.ResponseWriter, write journal.NewWrite, wanted conditions, c *call,
) error {
	written, settled, err := m.writeThrough(ctx, w, write, wanted, c)
	if err != nil {
		return err
	}
	acknowledgeThrough(w, c, written, settled, wire.AppendDeleted(nil, write.Namespace, write.Key))
	return nil
}

// acknowledgeThrough answers a write that upstream has. It is pending if an earlier write may
// still land over it: it is read back then.
func acknowledgeThrough(w http.ResponseWriter, c *call, written journal.Write, settled bool, body []byte) {
	if c.prefers > 0 {
		tellWait(w, c.prefers)
	}
	state := "pending"
	if settled {
		state = "settled"
	}
	if written.Seq != 0 {
		state += "; seq=" + strconv.FormatUint(written.Seq, 10)
	}
	w.Header().Set("Botwired-Write", state)
	writeJSON(w, http.StatusOK, body)
}
