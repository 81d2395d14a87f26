package upstream

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal"
)

// step runs one task: it reads back what is being watched, or sends the newest.
func (f *Flusher) step(ctx context.Context, t *task) error {
	defer f.signal()
	f.mu.Lock()
	newest := t.seq
	f.mu.Unlock()
	if d := t.doubt(); d.watching(newest) {
		return f.readBack(ctx, t, *d.watched)
	}
	return f.send(ctx, t, newest)
}

func (f *Flusher) send(ctx context.Context, t *task, newest uint64) error {
	w, ok, err := f.opts.Journal.Newest(t.id())
	if err != nil {
		return err
	}
	if !ok {
		return f.vanished(t, newest)
	}
	// Durable before the request leaves: a crash must not forget that it may land.
	if err := f.opts.Journal.MarkSent(w); errors.Is(err, journal.ErrFull) {
		f.noRoom(t)
		return nil
	} else if err != nil {
		return err
	}
	f.sending(t, w)
	out := f.opts.Client.Send(ctx, w)
	if out.Verdict == Unsent && t.doubt() == nil {
		// While the task is still this goroutine's: the mark of its next attempt must
		// not go instead.
		if err := f.opts.Journal.UnmarkSent(t.id()); err != nil {
			return err
		}
	}
	if out.Verdict != Confirmed && ctx.Err() != nil {
		f.abandon(t)
		return nil //nolint:nilerr // to end with the process is no failure
	}
	if f.opts.OnOutcome != nil {
		f.opts.OnOutcome(w.Op, out)
	}
	return f.conclude(ctx, t, w, out)
}

// noRoom waits for the disk, which is too full for an attempt's records.
func (f *Flusher) noRoom(t *task) {
	f.health.release(t.probe)
	f.retryAt(t, f.now()+instant(fullDiskRetry))
}

// sending notes that the entry has nothing unsent but what is newer than w.
func (f *Flusher) sending(t *task, w journal.Write) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.seq <= w.Seq {
		t.seq, t.firstAt = w.Seq, 0
		return
	}
	t.firstAt = t.lastAt
}

// vanished ends a task whose entry had nothing pending: a sent mark was left behind.
// newest is the write that the task knew of when the journal was asked.
func (f *Flusher) vanished(t *task, newest uint64) error {
	if err := f.opts.Journal.UnmarkSent(t.id()); err != nil {
		return err
	}
	f.health.release(t.probe)
	id := t.id()
	f.finish(t, newest)
	f.tell(journal.Write{ID: id, Seq: newest}, false)
	return nil
}

// abandon leaves a request that was cut off by the end of the process. Its sent mark
// stays, unless it is certain that it was not sent.
func (f *Flusher) abandon(t *task) {
	f.health.release(t.probe)
	f.retryAt(t, 0)
}

// conclude does what the outcome of a write request asks for.
func (f *Flusher) conclude(ctx context.Context, t *task, w journal.Write, out Outcome) error {
	switch out.Verdict {
	case Confirmed:
		f.answered(t, true)
		return f.confirmed(ctx, t, w)
	case Refused:
		return f.refused(t, w, out)
	case Limited, Paused:
		f.shutOut(t, out)
	case Unanswered:
		f.unanswered(t, w, out)
	case Unsent, Unwell:
		f.unwell(t, out)
	}
	return nil
}

// answered records that upstream gave a verdict. through says that the namespace is
// let in.
func (f *Flusher) answered(t *task, through bool) {
	before := f.health.success(t.id(), t.probe)
	f.mu.Lock()
	defer f.mu.Unlock()
	t.probe = false
	f.window = min(f.window+1, f.opts.Concurrency)
	if through && t.trouble != nil {
		t.trouble.attempts, t.trouble.backoff = 0, nil
	}
	// Only a request that left after the namespace was blocked shows that it no
	// longer is.
	if through && t.trial {
		f.schedule.unblock(t.space)
	}
	if before.down {
		f.opts.Logger.Info("upstream takes writes again")
	}
}

// confirmed settles a write, at once or after it has been watched.
func (f *Flusher) confirmed(ctx context.Context, t *task, w journal.Write) error {
	d := t.doubt()
	if d.moot(w) {
		return f.settle(t, w, true)
	}
	d.watch(w, f.now()+instant(f.opts.SettleTime))
	return f.readBack(ctx, t, w)
}

// readBack asks whether upstream still holds a confirmed write that an older,
// unanswered one may overtake. The write stays pending until the watch is over.
func (f *Flusher) readBack(ctx context.Context, t *task, w journal.Write) error {
	o, err := f.opts.Client.Get(ctx, w.ID)
	if err != nil {
		f.notReadBack(ctx, t, err)
		return nil
	}
	f.answered(t, false)
	d := t.doubt()
	switch found := observed(o); {
	case found != contentOf(w) && d.landed(found):
		f.opts.Logger.Warn("an unanswered write landed late and is repaired", "namespace", w.Namespace, "key", w.Key)
		f.retryAt(t, d.repair(f.now(), f.opts.BackoffInitial, f.opts.BackoffMax))
		return nil
	case f.now() < d.watchUntil:
		f.watchOn(t, w.Seq)
		return nil
	}
	// Upstream holds it, or what none of ours can have left: it was confirmed, and
	// another host has written since.
	return f.settle(t, w, observed(o) == contentOf(w))
}

func (f *Flusher) notReadBack(ctx context.Context, t *task, err error) {
	var failed *RequestError
	if ctx.Err() != nil || !errors.As(err, &failed) {
		f.abandon(t)
		return
	}
	out := failed.outcome()
	out.Reason = "reading back: " + out.Reason
	if out.Verdict == Limited || out.Verdict == Paused {
		f.shutOut(t, out)
		return
	}
	f.unwell(t, out) // a read leaves nothing that could land
}

// watchOn puts a task in line for its next look, or for a newer write.
func (f *Flusher) watchOn(t *task, seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(t)
	if t.trouble.retryAt = t.trouble.doubt.watchUntil; t.seq > seq {
		t.trouble.retryAt = 0
	}
	f.wait(t)
}

// settle ends a write that upstream has confirmed; held says that this is also what
// upstream held when it was last asked.
func (f *Flusher) settle(t *task, w journal.Write, held bool) error {
	if err := f.opts.Journal.Settle(w); err != nil {
		return err
	}
	if held && f.opts.OnSettled != nil {
		f.opts.OnSettled(w)
	}
	if t.trouble != nil {
		f.mu.Lock()
		t.trouble.doubt = nil
		f.mu.Unlock()
	}
	f.finish(t, w.Seq)
	f.tell(w, false)
	return nil
}

// refused makes a write a dead letter. What was in doubt before it still is, for the
// write that may follow.
//
// A watched write was confirmed, but is not settled in its place: it is watched because
// an older one may have landed over it since. The next read asks upstream.
func (f *Flusher) refused(t *task, w journal.Write, out Outcome) error {
	why := journal.Failure{Status: out.Status, Reason: out.Reason}
	why.InDoubt = t.unsure() // asked before answered forgets what was tried in vain
	f.answered(t, true)
	f.opts.Logger.Error("upstream refused a write for good: it is a dead letter now",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "reason", out.Reason)
	if err := f.opts.Journal.DeadLetter(w, why); err != nil {
		return err
	}
	f.finish(t, w.Seq)
	f.tell(w, true)
	return nil
}

// finish ends a task whose writes up to seq are done with, unless a newer one has
// come.
func (f *Flusher) finish(t *task, seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(t)
	if t.seq <= seq {
		f.schedule.remove(t)
		return
	}
	if d := t.doubt(); d != nil {
		t.trouble = &trouble{doubt: d}
	} else {
		t.trouble = nil
	}
	t.hurry = f.awaited(t.id())
	f.wait(t)
}
