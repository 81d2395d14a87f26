package flush

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/fence"
)

// through is a write that goes upstream before it is journaled: its caller is answered when
// upstream has confirmed it. It has the entry's turn like any request (contract 12). It takes
// the place of the entry's pending write, if there is one, which stays pending until
// upstream has confirmed this one.
//
// The entry is marked as sent first, and the write is journaled only when upstream has
// confirmed it. If the write fails, nothing of it is left but a doubt: upstream may have
// carried it out, or may do so within the late window. Until the doubt is over, readers ask
// upstream, and a later write is read back (contract 14).
type through struct {
	write journal.NewWrite
	// ready is called when the entry's turn has come. It decides whether the write is sent,
	// and what has to hold of the entry's newest pending write when it is journaled.
	ready func() (unchanged func(newest uint64) bool, err error)
	task  *task
	done  chan struct{} // closed when the fields below are set

	written journal.Write
	settled bool
	err     error

	base journal.Base // that ready was asked about, in front of an exact engine
}

// throughs are those in line, by task, in the order in which they came.
type throughs map[*task][]*through

// pop takes the first one out of a task's line; nil if there is none.
func (all throughs) pop(t *task) *through {
	if !t.through {
		return nil
	}
	w := all[t][0]
	all.remove(w)
	return w
}

// remove takes one out of line. It reports whether it was there.
func (all throughs) remove(w *through) bool {
	i := slices.Index(all[w.task], w)
	if i < 0 {
		return false
	}
	left := slices.Delete(all[w.task], i, i+1)
	if all[w.task] = left; len(left) == 0 {
		delete(all, w.task)
		w.task.through = false
	}
	return true
}

// NotWritten says that a write through was not acknowledged. Nothing of it is pending.
type NotWritten struct {
	Reason string // for people
	Wait   time.Duration
	status int
}

// The statuses with which a caller of the memory API is told why, in HTTP's numbers.
const (
	statusThrottled   = 429
	statusBadAnswer   = 502 // upstream failed over it, and nobody knows how far it got
	statusUnavailable = 503 // it was not sent
	statusUnanswered  = 504 // upstream may have carried it out, or may yet
)

func (n *NotWritten) Error() string { return "the write was not acknowledged: " + n.Reason }

// RetryAfter is when it makes sense to try again; 0 when nobody knows.
func (n *NotWritten) RetryAfter() time.Duration { return n.Wait }

// WriteStatus is the status with which the memory API says so.
func (n *NotWritten) WriteStatus() int { return n.status }

// WriteThrough carries a write upstream and journals it when upstream has confirmed it. It
// waits for the entry's turn for as long as one request may take, or until ctx ends. Once the
// write is on its way, WriteThrough returns when it knows what has become of it, whatever ctx
// says.
//
// ready is called when the entry's turn has come: its error refuses the write. unchanged
// is the If of the journal's [journal.NewWrite].
//
// settled is false if upstream may still carry out an earlier write, which was not answered:
// the write stays pending then, to be read back. The write's number is 0 if upstream has taken
// it and the journal had no room for it.
//
// In front of an exact engine, a write with conditions (ready returns an unchanged that is not nil) is
// carried out only over the version that this host knew beneath them, or else refused with
// [journal.ErrChanged]. A write without conditions always takes the place of what is there. Its number
// is 0 also if a newer write to the entry came while it was under way, which follows it upstream.
//
// Errors: those of ready, *[NotWritten], *[upstream.ServiceAnswer] with upstream's refusal,
// [journal.ErrFull] and *[journal.NamespaceFullError] if nothing was sent for want of room,
// [journal.ErrAbsent] for a delete of
// an entry that does not exist, [journal.ErrChanged] if unchanged does not hold any more when
// upstream has confirmed the write, which a newer write to the entry undoes then, ctx's, and
// those of a failed journal.
func (f *Flusher) WriteThrough(
	ctx context.Context, write journal.NewWrite, ready func() (unchanged func(newest uint64) bool, err error),
) (written journal.Write, settled bool, err error) {
	w := &through{write: write, ready: ready, done: make(chan struct{})}
	if refusal := w.enter(f); refusal != nil {
		return journal.Write{}, false, refusal
	}
	timer := time.NewTimer(f.opts.Timeout)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.written, w.settled, w.err
	case <-timer.C:
	case <-ctx.Done():
	}
	if refusal := w.withdraw(f); refusal != nil {
		if err := ctx.Err(); err != nil {
			return journal.Write{}, false, err
		}
		return journal.Write{}, false, refusal
	}
	<-w.done
	return w.written, w.settled, w.err
}

// enter puts the write in line, or says why it makes no sense to.
func (w *through) enter(f *Flusher) (refusal error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, now := f.schedule, f.now()
	q, t, made := s.ensure(w.write.ID)
	q.renew(f.opts.Quotas, now)
	w.task = t
	if refusal := w.refusal(f, q); refusal != nil {
		if made {
			q.tasks.Delete(t.Key())
			s.discard(q)
		}
		return refusal
	}
	s.throughs[t] = append(s.throughs[t], w)
	if t.through {
		return nil
	}
	if !made && !t.running {
		q.leave(t)
	}
	t.through, t.urgent = true, true
	if !t.running {
		s.enqueue(q, t, now)
	}
	f.signal()
	return nil
}

// withdraw takes the write out of line, and says why its turn has not come; nil if it has. The
// caller does not hold mu.
func (w *through) withdraw(f *Flusher) (refusal error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.schedule
	q, t := s.find(w.write.ID)
	if t != w.task || !s.throughs.remove(w) {
		return nil
	}
	if refusal = w.refusal(f, q); refusal == nil {
		refusal = &NotWritten{
			Reason: "its turn did not come within " + f.opts.Timeout.String() + ": other requests are under way" + unsent,
			Wait:   time.Second, status: statusUnavailable,
		}
	}
	if t.through || t.running {
		return refusal
	}
	q.leave(t)
	if t.needless() {
		q.tasks.Delete(t.Key())
		s.place(q)
		s.discard(q)
		return refusal
	}
	s.enqueue(q, t, f.now())
	return refusal
}

// refusal says why the write cannot be sent now; nil if it can when its turn comes. The caller
// holds mu.
func (w *through) refusal(f *Flusher, q *queue) error {
	now := f.now()
	until := func(at instant) time.Duration { return time.Duration(at - now) }
	if refusal := w.tooEarly(now); refusal != nil {
		return refusal
	}
	switch {
	case q.blocked && q.notBefore > now && q.paused != "":
		return &NotWritten{Reason: "the namespace is paused: " + q.paused + unsent, Wait: until(q.notBefore), status: statusUnavailable}
	case q.blocked && q.notBefore > now:
		return &NotWritten{Reason: "upstream throttles the namespace: " + q.throttled + unsent, Wait: until(q.notBefore), status: statusThrottled}
	case q.pace.limited && q.pace.promptAt > now:
		return &NotWritten{
			Reason: "the namespace has no write left of its quota now (quota.writes_per_day)" + unsent,
			Wait:   until(q.pace.promptAt), status: statusThrottled,
		}
	case f.health.Blocks(w.write.Namespace, time.Now()):
		v := f.health.View()
		return &NotWritten{Reason: "upstream is down: " + v.Reason + unsent, Wait: v.RetryIn, status: statusUnavailable}
	}
	return nil
}

const unsent = ". Nothing of it was sent"

// tooEarly says that the entry is in doubt since an earlier process: nothing is sent before the
// doubt is over.
func (w *through) tooEarly(now instant) error {
	d := w.task.doubt()
	if d == nil || d.unknownUntil <= now {
		return nil
	}
	return &NotWritten{
		Reason: "upstream may still carry out a request to the entry that an earlier process sent" + unsent,
		Wait:   time.Duration(d.unknownUntil - now), status: statusUnavailable,
	}
}

// run makes the request in the entry's turn. Its error is the journal's.
func (w *through) run(ctx context.Context, a *attempt) (err error) {
	defer func() {
		if err != nil {
			w.err = err
		}
		close(w.done)
	}()
	if w.err = w.tooEarly(a.f.now()); w.err != nil {
		return w.backOut(a, true)
	}
	if w.err = w.decide(a.f); w.err != nil {
		return w.backOut(a, true)
	}
	if w.err = a.f.opts.Through.Admits(w.write); w.err != nil {
		return w.backOut(a, true)
	}
	s, err := w.sendAttempt(a)
	if err != nil {
		return err
	}
	// Durable before the request leaves: a crash must not forget that it may land.
	mark := s.write
	mark.Seq = a.newest
	if err := a.f.opts.Journal.MarkSent(mark, a.task.own()...); errors.Is(err, journal.ErrFull) { // guard 14.14
		w.err = err
		return w.backOut(a, true)
	} else if err != nil {
		return err
	}
	end, err := s.run(ctx)
	if err != nil {
		return err
	}
	return w.conclude(ctx, s, end)
}

// decide asks ready whether the write is sent. In front of an exact engine it notes what this host knew
// when ready looked: an answer of upstream's that comes later shows a state that ready has not judged.
func (w *through) decide(f *Flusher) (err error) {
	if !f.exact || f.fences.journal == nil {
		w.write.If, err = w.ready()
		return err
	}
	before, err := f.fences.journal.Base(w.write.ID)
	for range mostProposals {
		if err != nil {
			return err
		}
		if w.write.If, err = w.ready(); err != nil {
			return err
		}
		if w.base, err = f.fences.journal.Base(w.write.ID); err == nil && w.base == before {
			return nil
		}
		before = w.base
	}
	return errors.Join(err, journal.ErrChanged)
}

// sendAttempt is the write's. Its time is that of its arrival, and later than a pending write's in whose
// place it comes. Its number is not known before it is journaled: its version has none.
//
// An exact engine carries out a write with conditions only in the place of the version that they were
// judged by. Any other write takes the place of what is there; another host's version that this host
// did not know is kept as a dead letter.
func (w *through) sendAttempt(a *attempt) (*sendAttempt, error) {
	newest, _, err := a.f.opts.Journal.Newest(w.write.ID)
	if err != nil {
		return nil, err
	}
	c := &fence.Conditions{
		OnBase: w.write.If != nil, Lacked: newest.Seq == 0 || newest.Op == journal.Delete,
	}
	if a.f.exact && !c.OnBase {
		w.write.If = func(latest uint64) bool { return latest == newest.Seq }
	}
	now := upstream.Unix(time.Now())
	sending := journal.Write{
		ID: w.write.ID, Op: w.write.Op, Value: w.write.Value, ListBytes: w.write.ListBytes, WrittenAt: now, UpdatedAt: now,
	}
	if newest.Seq != 0 {
		sending.UpdatedAt = max(now, newest.UpdatedAt+timeTick)
	}
	return &sendAttempt{f: a.f, a: a, write: sending, conditions: c, over: w.base, alone: newest.Seq == 0}, nil
}

// conclude ends the write as its send attempt has ended.
func (w *through) conclude(ctx context.Context, s *sendAttempt, end sent) error {
	a := s.a
	if end.requested && a.f.opts.OnOutcome != nil {
		verdict := upstream.Confirmed
		if end.failed != nil {
			verdict = end.failed.Verdict
		}
		a.f.opts.OnOutcome(w.write.Op, verdict)
	}
	switch {
	case end.requested && end.failed != nil:
		return w.failed(ctx, a, end.failed)
	case end.requested, end.end == fence.Own:
		return w.confirmed(s, end.now)
	case end.end == fence.Lost: // the conditions were judged by another version
		return w.refusedAs(a, journal.ErrChanged)
	case end.end == fence.Held: // there is nothing to delete
		return w.refusedAs(a, journal.ErrAbsent)
	case end.end == fence.Conflict:
		return w.refusedAs(a, &NotWritten{Reason: reasonContended + unsent, Wait: time.Second, status: statusUnavailable})
	}
	read := *end.failed // upstream could not be asked, and nothing was sent
	if read.Verdict.BlamesUpstream() {
		read.Verdict = upstream.Unsent
	}
	return w.failed(ctx, a, &read)
}

// refusedAs ends an attempt of which nothing was carried out, with an error for the caller.
func (w *through) refusedAs(a *attempt, err error) error {
	w.err = err
	a.charge.takeBack()
	a.answered(false)
	return errors.Join(a.unmark(), w.backOut(a, false))
}

// backOut ends an attempt of which nothing is left upstream, or only a doubt. The task waits
// as before, or goes if nothing is left to do for it.
func (w *through) backOut(a *attempt, unmade bool) error {
	if unmade {
		a.charge.takeBack()
		a.f.health.Release(a.probe)
	}
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.resume()
	return nil
}

// confirmed journals a write that upstream has carried out, and that has become a version.
func (w *through) confirmed(s *sendAttempt, now upstream.Version) error {
	a := s.a
	a.answered(true)
	a.f.tookTrip(time.Since(s.sent))
	if w.write.Op == journal.Delete && !now.Deleted { // upstream did not hold the entry
		last, ok, err := a.f.opts.Journal.Newest(w.write.ID)
		if err != nil {
			return err
		}
		if !ok || last.Op == journal.Delete { // it does not exist here either
			w.err = journal.ErrAbsent
			return errors.Join(a.unmark(), w.backOut(a, false))
		}
	}
	w.write.Held = true
	if a.f.exact {
		w.write.At = now.WrittenAt
	}
	written, err := a.f.opts.Journal.Append(w.write)
	switch {
	case errors.Is(err, journal.ErrFull):
		return w.noRoom(a)
	case errors.Is(err, journal.ErrChanged):
		// A newer write was acknowledged meanwhile. It goes upstream next, over this one.
		if w.settled = a.f.exact && !s.conditions.OnBase; !w.settled {
			w.err = err
		}
		a.mayHold(w.content())
		return w.backOut(a, false)
	case err != nil:
		return err
	}
	a.sending(written) // there is nothing older left to send
	w.written = written
	a.f.fences.confirmed(written, s.sent, s.received)
	written.SentAfter = a.f.fences.sentAfter(s.sent)
	if a.f.exact {
		written.SentAfter, written.CreatedAt = now.WrittenAt-timeTick, now.CreatedAt
	}
	if a.staysPending(written, a.f.instant(s.sent)) {
		return nil
	}
	w.settled = true
	return a.settle(written)
}

// noRoom ends an attempt whose write upstream holds, and for which the journal has no room
// any more. The journal forgets the copy, which is older.
func (w *through) noRoom(a *attempt) error {
	if a.task.doubt() != nil { // an earlier write may land over it, and it could not be sent again
		w.err = &NotWritten{
			Reason: "upstream has carried it out, but may still carry out an earlier request, and the journal has no room to repair that",
			status: statusUnanswered,
		}
		a.f.opts.Through.Doubt(w.write.ID)
		return w.backOut(a, false)
	}
	w.settled = true
	if err := a.f.opts.Through.Supersede(w.write.ID, a.newest); err != nil {
		return err
	}
	a.finish(a.newest, false)
	return nil
}

// content is the state that the write leaves.
func (w *through) content() journal.Content { return journal.ContentOf(w.write.Op, w.write.Value) }

// awaitThroughs returns when the writes through that are here now are over, or ctx ends.
func (f *Flusher) awaitThroughs(ctx context.Context) {
	var here []*through
	f.mu.Lock()
	for _, waiting := range f.schedule.throughs {
		here = append(here, waiting...)
	}
	for _, a := range f.schedule.running {
		if a.through != nil {
			here = append(here, a.through)
		}
	}
	f.mu.Unlock()
	for _, w := range here {
		select {
		case <-w.done:
		case <-ctx.Done():
		}
	}
}
