package memory

import (
	"context"
	"errors"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

func (m *Memory) write(ctx context.Context, q *Request, w journal.NewWrite, wanted Conditions) (Result, error) {
	if err := m.accepts(w.ID, w.Value); err != nil {
		return Result{}, err
	}
	m.lister.note(w.Namespace)
	w.Author = q.Author
	shown := shownOf(&w)
	if q.named != nil {
		q.named.Answer, w.Request = shown.encoded(), q.named
	}
	confirms := m.confirms(w.Namespace, q, wanted.given())
	if confirms {
		if q.AtOnce {
			return Result{}, ErrWaits
		}
		if !q.extend(m.patienceOf(q)) { // guard 16.52
			return Result{}, ErrCrowded
		}
	}
	var written journal.Write
	var assumed bool
	var err error
	switch {
	case w.Op == journal.Delete && !wanted.given():
		written, assumed, err = m.remove(ctx, w, q.Before)
	case confirms && m.exact && wanted.given():
		q.release() // a write that waits for an earlier one must not hold up the reading of other bodies
		written, err = m.storeIf(ctx, w, wanted, func() error { return m.settleBefore(ctx, q, w.ID) })
	default:
		written, err = m.storeIf(ctx, w, wanted, nil)
	}
	if err != nil {
		return Result{}, err
	}
	q.release() // acknowledging may wait for upstream
	if q.Trace.Given() {
		m.traces.Note(written.String(), written.Seq, q.Trace)
	}
	r := Result{
		Status: statusOK, id: written.ID, op: written.Op, shown: shown, seq: written.Seq, state: "pending",
		assumed: assumed, tagged: written.Op == journal.Put, applied: -1,
	}
	if q.Waits {
		r.awaited, r.applied = true, q.Wait
	}
	if confirms {
		return m.confirm(ctx, q, r, wanted.given())
	}
	if q.Waits {
		r.state = m.await(ctx, q, &written)
		r.applied = q.Wait
	}
	return r, nil
}

// NewPut returns the PUT of a value.
func NewPut(id journal.ID, value string) journal.NewWrite {
	return journal.NewWrite{ID: id, Op: journal.Put, Value: value, ListBytes: wire.ListBytes(value)}
}

// store journals a write.
func (m *Memory) store(w journal.NewWrite) (journal.Write, error) {
	m.lister.note(w.Namespace)
	return m.journal.Append(w)
}

// await waits, as long as the caller prefers, until upstream has confirmed or refused a write, and returns
// the write's state.
func (m *Memory) await(caller context.Context, q *Request, written *journal.Write) string {
	if q.Wait == 0 {
		return "pending"
	}
	if !q.extend(q.Wait) { // guard 16.48
		q.Wait = 0 // a preference
		return "pending"
	}
	ctx, cancel := m.tasks.Patience(caller, q.Wait)
	defer cancel()
	if m.flusher.Await(ctx, written.ID, written.Seq) {
		return "settled"
	}
	state, dead, err := m.journal.IsDead(written.ID, written.Seq)
	if err != nil || !dead {
		return "pending" // also if unknown: the caller can ask again
	}
	return state.String()
}

// storeIf journals a write if the entry meets the caller's conditions. No other write comes between the check
// and the write: of all callers that want to replace the same state, only one does (contract 5). With settle, the
// conditions have to hold upstream, too: settle is called until nothing of the entry is pending, so that the state
// which meets them is upstream's, as far as this host knows, and the write replaces only that.
func (m *Memory) storeIf(ctx context.Context, w journal.NewWrite, c Conditions, settle func() error) (written journal.Write, err error) {
	if !c.given() {
		return m.store(w)
	}
	err = unlessOvertaken(ctx, func() error {
		if settle != nil { // guard 5.44
			if err := settle(); err != nil {
				return err
			}
		}
		lease := m.cache.Lease(entryKey(w.ID))
		defer lease.Release()
		seq, changes, err := m.meets(w, c)
		if err != nil {
			return err
		}
		if settle != nil {
			if seq != 0 {
				return errOvertaken
			}
			base, err := m.journal.Fence.Base(w.ID)
			if err != nil {
				return err
			}
			w.Over = &base
		}
		w.If = func(newest uint64) bool { return newest == seq && lease.Changes() == changes } // guard 5.7
		written, err = m.store(w)
		return err
	})
	return written, err
}

// unlessOvertaken repeats try while other writes overtake it. Each try decides by one look at the entry.
func unlessOvertaken(ctx context.Context, try func() error) error {
	for {
		err := try()
		if !isOvertaken(err) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// isOvertaken reports whether another write came first: look again.
func isOvertaken(err error) bool {
	return errors.Is(err, journal.ErrChanged) || errors.Is(err, errOvertaken)
}

// meets refuses a write if the entry does not meet the conditions. It returns the number of the entry's
// newest pending write, 0 if there is none, and how many changes of the entry the check itself has made.
func (m *Memory) meets(w journal.NewWrite, c Conditions) (seq uint64, changes int64, err error) {
	k, changes, err := m.lookOrAsk(w.ID)
	if err != nil {
		return 0, 0, err
	}
	if k.item.Body == nil && w.Op == journal.Delete {
		// Without a condition it would be a 404, so it is one with a condition too (RFC 9110, section
		// 13.2.1).
		return 0, 0, wire.NotFound(w.Namespace, w.Key)
	}
	return k.state.Seq, changes, c.refuseWrite(k.item)
}
