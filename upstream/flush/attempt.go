package flush

import (
	"context"
	"errors"
	"log/slog"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// attempt is one run of a task: it sends the entry's newest write, or reads back the confirmed one. It
// then decides what the answer means for the entry, its namespace and upstream's health. The task
// belongs to the attempt until it ends.
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
	charge    charge        // for the request, against the namespace's quota
	ended     chan struct{} // closed when the attempt ends; nil until somebody waits for that
	through   *through      // the write through that it sends; nil: it sends the pending write
}

func (a *attempt) id() journal.ID { return a.queue.id(a.task) }

// newerWrite records a write that arrives during the attempt. The caller holds mu.
func (a *attempt) newerWrite(position uint64, now instant) {
	if a.newer == 0 {
		a.newer = position
		a.task.begin(now)
	}
}

// run returns only the journal's errors.
func (a *attempt) run(ctx context.Context) error {
	defer a.f.signal()
	if a.through != nil {
		return a.through.run(ctx, a)
	}
	if a.task.doubt().verifying(a.newest) {
		return a.readBack(ctx)
	}
	return a.send(ctx)
}

func (a *attempt) send(ctx context.Context) error {
	w, ok, err := a.f.opts.Journal.Newest(a.id())
	if err != nil {
		return err
	}
	if !ok {
		return a.vanished()
	}
	// Durable before the request leaves: a crash must not forget that it may land.
	if err := a.f.opts.Journal.MarkSent(w, a.task.own()...); errors.Is(err, journal.ErrFull) { // guard 12.5, 14.11
		// guard 3.7
		a.waitForRoom()
		return nil
	} else if err != nil {
		return err
	}
	// Before the fence asks: a record between its answer and the write would take time.
	a.f.opts.Quotas.Cover(w.Namespace) // guard 18.14
	a.sending(w)
	s := &sendAttempt{f: a.f, a: a, write: w}
	end, err := s.run(ctx)
	if err != nil {
		return err
	}
	a.account(ctx, s, end)
	return a.conclude(ctx, s, end)
}

// account refunds the quota for a write that upstream did not count, and reports the verdict.
func (a *attempt) account(ctx context.Context, s *sendAttempt, end sent) {
	verdict := end.verdict()
	switch {
	case !end.requested:
		a.charge.cancel()
	case verdict == upstream.Unsent || verdict == upstream.Throttled: // guard 18.13
		a.charge.takeBack()
	}
	if end.requested && (verdict == upstream.Confirmed || ctx.Err() == nil) && a.f.opts.OnOutcome != nil {
		a.f.opts.OnOutcome(s.write.Op, verdict)
	}
}

// unmark removes the sent mark of a request that was not sent, unless an earlier request may have
// arrived. The task still belongs to this attempt, so the mark cannot be the next attempt's.
func (a *attempt) unmark() error {
	if a.task.mayHaveLanded() { // guard 14.9
		return nil
	}
	return a.f.opts.Journal.UnmarkSent(a.id())
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

// vanished ends a task with nothing pending: its entry had a stale sent mark, or was in doubt.
func (a *attempt) vanished() error {
	if err := a.f.opts.Through.EndDoubt(a.id()); err != nil {
		return err
	}
	a.unmade()
	a.endDoubt()
	a.finish(a.newest, false)
	return nil
}

// staysPending ends the attempt, and leaves its confirmed write pending, if upstream may still carry
// out an older request over it.
func (a *attempt) staysPending(w journal.Write, sentAt instant) bool {
	d := a.task.doubt()
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if d != nil {
		d.sentAt(sentAt)
	}
	if d == nil || d.over() { // guard 14.2
		return false
	}
	d.confirmed = &confirmation{w.Seq, contentOf(w), w.SentAfter}
	at := d.until()
	if a.task.seq > w.Seq {
		at = 0 // the newer write need not wait
	}
	a.stop(doubting, at)
	if at != 0 {
		a.f.mu.Log(slog.LevelInfo, "upstream holds a write, which stays pending: an earlier request to its entry was not answered",
			"namespace", w.Namespace, "key", w.Key, "until", a.f.wall(at))
	}
	return true
}

// readBack checks that upstream still holds a confirmed write, once no older request can land any more.
func (a *attempt) readBack(ctx context.Context) error {
	confirmed := a.task.doubt().confirmed
	v, failed := a.read(ctx)
	if failed != nil {
		a.notRead(ctx, "reading back: ", failed)
		return nil
	}
	a.answered(false)
	found := v.Content()
	if found != confirmed.content && a.task.doubt().mayLeave(found) { // guard 14.7
		a.f.opts.Logger.Warn("an unanswered write was carried out late: the newer one is sent again",
			"namespace", a.id().Namespace, "key", a.id().Key)
		a.sendAgain()
		return nil
	}
	w, ok, err := a.f.opts.Journal.Newest(a.id())
	w.SentAfter = confirmed.sentAfter // guard 7.39
	switch {
	case err != nil:
		return err
	case !ok:
		return a.vanished()
	case w.Seq != confirmed.seq: // a newer write has arrived, and is sent now
		a.sendAgain()
		return nil
	case found != confirmed.content:
		// None of our requests can have left that content: another host has written since the
		// confirmation.
		return a.overtaken(w, v.Observation()) // guard 14.18
	}
	w.SentAfter = shown(w.SentAfter, v) // guard 7.40
	return a.settle(w)
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

func (a *attempt) sendAgain() {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.task.retry.doubt.confirmed = nil
	a.stop(backingOff, atOnce)
}

// notRead ends an attempt that could not read the entry upstream. The reason begins with what.
func (a *attempt) notRead(ctx context.Context, what string, failed *upstream.Error) {
	if ctx.Err() != nil {
		a.putBack()
		return
	}
	read := *failed
	read.Reason = what + failed.Reason
	switch read.Verdict {
	case upstream.Throttled, upstream.Paused:
		a.keepWaiting(&read)
	case upstream.Permanent: // upstream is healthy; the write stays pending until it can be read
		a.answered(false)
		a.tryAgain(&read, false)
	default:
		a.tryAgain(&read, a.blame(ctx, &read)) // a read leaves nothing that could land later
	}
}

// settle settles a confirmed write, and ends the attempt.
func (a *attempt) settle(w journal.Write) error {
	if err := a.f.opts.Journal.Settle(w); err != nil {
		return err
	}
	if a.f.opts.OnSettled != nil {
		a.f.opts.OnSettled(w)
	}
	a.endDoubt()
	a.finish(w.Seq, false)
	return nil
}

// overtaken settles a confirmed write that another host has overwritten since with o; nil means a
// delete. Readers see o from now on.
func (a *attempt) overtaken(w journal.Write, o *journal.Observation) error {
	if err := a.f.opts.Journal.Settle(w); err != nil {
		return err
	}
	// Until this attempt ends, the flusher changes the entry by no other request, and an answer that a
	// reader got meanwhile is newer.
	if _, err := a.f.opts.Journal.Fill(w.ID, o, func() bool { return true }); err != nil && !errors.Is(err, journal.ErrChanged) {
		return err
	}
	a.endDoubt()
	a.finish(w.Seq, false)
	return nil
}

func (a *attempt) endDoubt() {
	if a.task.retry != nil {
		a.f.mu.Lock()
		a.task.retry.doubt = nil
		a.f.mu.Unlock()
	}
}

// finish ends the attempt and completes the task's writes up to seq. It schedules a newer write again.
func (a *attempt) finish(seq uint64, dead bool) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.f.schedule.stop(a, a.f.now())
	from, to, left := a.f.schedule.complete(a, seq)
	a.f.renew(a.queue) // it has one entry less
	a.f.callers.completed(a.id(), seq, from, to, dead)
	if left {
		a.beginAnew()
	}
}

// beginAnew enqueues a stopped task for its newer write, or for the end of its doubt. The caller holds
// mu.
func (a *attempt) beginAnew() {
	doubt := a.task.doubt()
	a.task.retry = nil
	if doubt != nil {
		r := retryOf(a.task)
		if r.doubt = doubt; a.task.first == 0 {
			r.waiting, r.at = doubting, max(atOnce, doubt.until())
		}
	}
	a.task.urgent = a.task.through || a.f.callers.waitFor(a.id())
	a.f.schedule.enqueue(a.queue, a.task, a.f.now())
}
