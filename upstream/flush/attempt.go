package flush

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// attempt is one run of a task: it sends the entry's newest write, or reads back the confirmed one. Its
// ending says what the answer means for the entry, its namespace and upstream's health. The task
// belongs to the attempt until end applies that.
type attempt struct {
	f     *Flusher
	queue *queue
	task  *task

	newest    uint64 // the task's newest write when the attempt began
	newer     uint64 // position of the first write that this attempt does not send; 0: none
	startedAt instant
	probe     bool          // it tests whether an outage is over
	trial     bool          // it tests whether the namespace is let in again
	silent    bool          // the entry's last request hung
	removes   bool          // it sends a delete, and there is a quota
	charged   bool          // the quota counts the request
	flying    bool          // the quota has counted the request
	requested bool          // the write's request was made
	heard     bool          // the health knows how upstream is
	down      bool          // upstream is down, as the failure shows
	ended     chan struct{} // closed when the attempt ends; nil until somebody waits for that
}

func (a *attempt) id() journal.ID { return a.queue.id(a.task) }

// run returns only the journal's errors, which end the flusher.
func (a *attempt) run(ctx context.Context) error {
	defer a.f.signal()
	do := a.send
	if a.task.doubt().verifying(a.newest) {
		do = a.readBack
	}
	e, err := do(ctx)
	if err != nil {
		return err
	}
	a.end(e)
	return nil
}

// send sends the entry's newest write.
func (a *attempt) send(ctx context.Context) (ending, error) {
	w, ok, err := a.f.opts.Journal.Newest(a.id())
	if err != nil {
		return ending{}, err
	}
	if !ok {
		return a.vanished()
	}
	// Durable before the request leaves: a crash must not forget that it may land.
	if err := a.f.opts.Journal.MarkSent(w, a.task.own()...); errors.Is(err, journal.ErrFull) { // guard 12.5, 14.11
		// guard 3.7
		return ending{task: waitsForRoom}, nil
	} else if err != nil {
		return ending{}, err
	}
	// Before the fence asks: a record between its answer and the write would take time.
	a.f.opts.Quotas.Cover(w.Namespace) // guard 18.14
	a.sending(w)
	s := &sendAttempt{f: a.f, a: a, write: w}
	got, err := s.run(ctx)
	if err != nil {
		return ending{}, err
	}
	a.account(ctx, s, got)
	return a.conclude(ctx, s, got)
}

// account refunds the quota for a write that upstream did not count, and reports the verdict.
func (a *attempt) account(ctx context.Context, s *sendAttempt, got sent) {
	if a.requested = got.requested; !got.requested {
		return
	}
	verdict := upstream.Confirmed
	if got.failed != nil {
		verdict = got.failed.Verdict
	}
	if verdict == upstream.Unsent || verdict == upstream.Throttled { // guard 18.13
		a.takeBack()
	}
	if (verdict == upstream.Confirmed || ctx.Err() == nil) && a.f.opts.OnOutcome != nil {
		a.f.opts.OnOutcome(s.write.Op, verdict)
	}
}

// sending records that w is being sent: only a newer write is left to send.
func (a *attempt) sending(w journal.Write) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if a.task.seq <= w.Seq {
		a.task.seq, a.newer = w.Seq, 0
	}
	if a.f.diskFull {
		a.f.diskFull = false
		a.f.mu.Log(slog.LevelInfo, "there is room on the disk again: writes go upstream")
	}
}

// readBack checks that upstream still holds a confirmed write, once no older request can land any more.
func (a *attempt) readBack(ctx context.Context) (ending, error) {
	confirmed, again := a.task.doubt().confirmed, ending{task: goesAgain}
	v, failed := a.read(ctx)
	switch {
	case failed != nil && ctx.Err() != nil:
		return ending{task: goesAgain}, nil //nolint:nilerr // to end with the process is no failure
	case failed != nil: // a read leaves nothing that could land later
		e := failing("reading back: ", failed)
		a.failed(e.failed)
		return e, nil
	}
	a.answered(false, 0)
	found := v.Content()
	if found != confirmed.content && a.task.doubt().mayLeave(found) { // guard 14.7
		a.f.opts.Logger.Warn("an unanswered write was carried out late: the newer one is sent again",
			"namespace", a.id().Namespace, "key", a.id().Key)
		return again, nil
	}
	w, ok, err := a.f.opts.Journal.Newest(a.id())
	w.SentAfter, w.MadeAt = confirmed.sentAfter, confirmed.madeAt // guard 7.39
	switch {
	case err != nil:
		return ending{}, err
	case !ok:
		return a.vanished()
	case w.Seq != confirmed.seq: // a newer write has arrived, and is sent now
		return again, nil
	case found != confirmed.content: // guard 14.18
		// None of our requests can have left that content: another host has written since the
		// confirmation. Readers see its state from now on. Until this attempt ends, the flusher changes the
		// entry by no other request, and an answer that a reader got meanwhile is newer.
		if err := a.f.opts.Journal.Settle(w); err != nil {
			return ending{}, err
		}
		_, err := a.f.opts.Journal.Fill(w.ID, v.Observation(), func() bool { return true })
		if errors.Is(err, journal.ErrChanged) || errors.Is(err, journal.ErrOlder) {
			err = nil
		}
		return ending{task: settles, write: w}, err
	}
	a.f.fences.confirmed(w, time.Time{}, v.WrittenAt)                      // guard 17.58
	w.SentAfter, w.MadeAt = shown(w.SentAfter, v), max(w.MadeAt, v.MadeAt) // guard 7.40
	return a.settle(ending{}, w)
}

// read waits for a slot and reads the entry upstream.
func (a *attempt) read(ctx context.Context) (upstream.Version, *upstream.Error) {
	slot, failed := a.f.hold(ctx, a.id().Namespace)
	if failed != nil {
		return upstream.Version{}, failed
	}
	defer slot.Release()
	v, err := slot.get(ctx, a.id())
	return v, upstream.ErrorOf(err)
}
