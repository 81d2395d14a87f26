package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/journal"
)

// fullDiskRetry is how long a task waits when the disk is too full to flush.
const fullDiskRetry = time.Second

// attempt is one run of a task: it sends the entry's newest write, or reads back what was
// confirmed, and decides what the answer means for the entry, for its namespace and for
// what is believed of upstream. The task is the attempt's own until it ends.
type attempt struct {
	f     *Flusher
	queue *queue
	task  *task

	newest  uint64 // the task's newest write when the attempt began
	newer   uint64 // position of the first write that this attempt does not send; 0 if there is none
	probe   bool   // it finds out whether an outage is over
	trial   bool   // it finds out whether the namespace is let in again
	inOrder bool   // it counts in its queue's inOrder
}

func (a *attempt) id() journal.ID { return a.queue.id(a.task) }

// newerWrite takes in a write that the journal announces during the attempt. The caller
// holds mu.
func (a *attempt) newerWrite(position uint64, now instant) {
	if a.newer == 0 {
		a.newer = position
		a.task.begin(now)
	}
}

// run makes the attempt. Its errors are the journal's.
func (a *attempt) run(ctx context.Context) error {
	defer a.f.signal()
	if d := a.task.doubt(); d.verifying(a.newest) {
		return a.readBack(ctx, *d.confirmed)
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
	if err := a.f.opts.Journal.MarkSent(w); errors.Is(err, journal.ErrFull) {
		a.putBack(a.f.now() + instant(fullDiskRetry))
		return nil
	} else if err != nil {
		return err
	}
	a.sending(w)
	failed := request(ctx, a.f.opts.Engine, w)
	if failed != nil && failed.Verdict == Unsent && a.task.doubt() == nil {
		// While the task is still this attempt's: the mark of the next one must not go
		// instead.
		if err := a.f.opts.Journal.UnmarkSent(w.ID); err != nil {
			return err
		}
	}
	if failed != nil && ctx.Err() != nil {
		// The sent mark stays, unless it is certain that the request was not sent.
		a.putBack(atOnce)
		return nil //nolint:nilerr // to end with the process is no failure
	}
	verdict := Confirmed
	if failed != nil {
		verdict = failed.Verdict
	}
	if a.f.opts.OnOutcome != nil {
		a.f.opts.OnOutcome(w.Op, verdict)
	}
	return a.conclude(ctx, w, verdict, failed)
}

func request(ctx context.Context, engine Engine, w journal.Write) *Error {
	if w.Op == journal.Delete {
		return errorOf(engine.Delete(ctx, w.ID))
	}
	return errorOf(engine.Put(ctx, w.ID, w.Value))
}

// sending notes that only a write newer than w is still to be sent.
func (a *attempt) sending(w journal.Write) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if a.task.seq <= w.Seq {
		a.task.seq, a.newer = w.Seq, 0
	}
}

// vanished ends a task whose entry has nothing pending: a sent mark was left behind.
func (a *attempt) vanished() error {
	if err := a.f.opts.Journal.UnmarkSent(a.id()); err != nil {
		return err
	}
	a.f.health.release(a.probe)
	a.finish(a.newest, false)
	return nil
}

// conclude does what the verdict on a write request asks for.
func (a *attempt) conclude(ctx context.Context, w journal.Write, verdict Verdict, failed *Error) error {
	switch verdict {
	case Confirmed:
		a.answered(true)
		return a.confirmed(ctx, w)
	case Permanent:
		return a.deadLetter(w, failed)
	case Throttled, Paused:
		a.keepWaiting(failed)
	case Unanswered:
		a.unanswered(w, failed)
	case Unsent, Transient:
		a.transient(failed)
	}
	return nil
}

// confirmed settles a write, at once or after it has been read back.
func (a *attempt) confirmed(ctx context.Context, w journal.Write) error {
	d := a.task.doubt()
	if d.allLeave(w) {
		return a.settle(w, true)
	}
	d.verify(w, a.f.now()+instant(a.f.opts.LateWindow))
	return a.readBack(ctx, w)
}

// readBack asks whether upstream still holds a confirmed write that an older, unanswered
// one may overtake. The write stays pending until verifyUntil.
func (a *attempt) readBack(ctx context.Context, w journal.Write) error {
	o, err := a.f.opts.Engine.Get(ctx, w.ID)
	if err != nil {
		a.notReadBack(ctx, errorOf(err))
		return nil
	}
	a.answered(false)
	d := a.task.doubt()
	switch found := observed(o); {
	case found != contentOf(w) && d.mayBe(found):
		a.f.opts.Logger.Warn("an unanswered write was carried out late: the newer one is sent again",
			"namespace", w.Namespace, "key", w.Key)
		a.putBack(d.repair(a.f.now(), a.f.opts.BackoffInitial, a.f.opts.BackoffMax))
		return nil
	case a.f.now() < d.verifyUntil:
		a.verifyOn(w.Seq)
		return nil
	}
	// Upstream holds the write, or a state that none of our requests can have left: then
	// another host has written since the write was confirmed.
	return a.settle(w, observed(o) == contentOf(w))
}

func (a *attempt) notReadBack(ctx context.Context, failed *Error) {
	if ctx.Err() != nil {
		a.putBack(atOnce)
		return
	}
	read := *failed
	read.Reason = "reading back: " + failed.Reason
	if read.Verdict == Throttled || read.Verdict == Paused {
		a.keepWaiting(&read)
		return
	}
	a.transient(&read) // a read leaves nothing that could land
}

// verifyOn puts the task in line for its next read-back, or for a newer write.
func (a *attempt) verifyOn(seq uint64) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	at := a.task.retry.doubt.verifyUntil
	if a.task.seq > seq {
		at = 0
	}
	a.stop(at)
}

// settle ends a write that upstream has confirmed; held says that this is also what
// upstream held when it was last asked.
func (a *attempt) settle(w journal.Write, held bool) error {
	if err := a.f.opts.Journal.Settle(w); err != nil {
		return err
	}
	if held && a.f.opts.OnSettled != nil {
		a.f.opts.OnSettled(w)
	}
	if a.task.retry != nil {
		a.f.mu.Lock()
		a.task.retry.doubt = nil
		a.f.mu.Unlock()
	}
	a.finish(w.Seq, false)
	return nil
}

// deadLetter ends a write that upstream will never take. Unanswered requests from before
// it stay in doubt, for the write that may follow.
//
// A confirmed write that is being read back does not settle in its place: an older one
// may have landed over it. The next read asks upstream.
func (a *attempt) deadLetter(w journal.Write, failed *Error) error {
	why := journal.Failure{Status: failed.Status, Reason: failed.Reason}
	why.InDoubt = a.task.mayHaveLanded() // asked before answered forgets the failures
	a.answered(true)
	a.f.opts.Logger.Error("upstream refused a write for good: it is a dead letter now",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "reason", failed.Reason)
	if err := a.f.opts.Journal.DeadLetter(w, why); err != nil {
		return err
	}
	a.finish(w.Seq, true)
	return nil
}

// finish ends a task whose writes up to seq are done with, unless a newer one has come.
func (a *attempt) finish(seq uint64, dead bool) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.f.schedule.stop(a)
	from, to, left := a.f.schedule.complete(a, seq)
	a.f.callers.completed(a.id(), seq, from, to, dead)
	if !left {
		return
	}
	doubt := a.task.doubt()
	a.task.retry = nil
	if doubt != nil {
		retryOf(a.task).doubt = doubt
	}
	a.task.urgent = a.f.callers.waitFor(a.id())
	a.f.schedule.enqueue(a.queue, a.task, a.f.now())
}
