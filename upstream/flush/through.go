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

// through is a write that goes upstream before it is journaled: its caller is answered when upstream
// has confirmed it. It waits for the entry's turn like any request (contract 12). The entry's pending
// write, if any, stays pending until upstream has confirmed this one.
//
// The entry is marked as sent first, and the write is journaled after upstream's confirmation. A failed
// write leaves nothing but a doubt: upstream may have carried it out, or may do so within the late
// window. Until the doubt is over, readers ask upstream, and a later write is read back (contract 14).
type through struct {
	write journal.NewWrite
	// ready is called when the entry's turn has come. It decides whether the write is sent, and returns
	// the condition on the entry's newest pending write for journaling it.
	ready func() (unchanged func(newest uint64) bool, err error)
	task  *task
	done  chan struct{} // closed when the fields below are set

	written journal.Write
	settled bool
	err     error

	base journal.Base // if versions name their writers: the base that ready judged
}

// throughs holds the writes through that wait, by task, in order of arrival.
type throughs map[*task][]*through

// pop removes and returns the first write of a task; nil if there is none.
func (all throughs) pop(t *task) *through {
	if !t.through {
		return nil
	}
	w := all[t][0]
	all.remove(w)
	return w
}

// remove removes a write, and reports whether it was there.
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

// HTTP statuses with which the memory API gives the reason.
const (
	statusThrottled   = 429
	statusBadAnswer   = 502 // upstream failed while handling it; how far it got is unknown
	statusUnavailable = 503 // it was not sent
	statusUnanswered  = 504 // upstream may have carried it out, or still may
)

func notSent(reason string, wait time.Duration, status int) *NotWritten {
	return &NotWritten{reason + ". Nothing of it was sent", wait, status}
}

func (n *NotWritten) Error() string { return "the write was not acknowledged: " + n.Reason }

// RetryAfter returns when to try again; 0 if unknown.
func (n *NotWritten) RetryAfter() time.Duration { return n.Wait }

// WriteStatus returns the memory API's HTTP status for the error.
func (n *NotWritten) WriteStatus() int { return n.status }

// WriteThrough carries a write upstream and journals it when upstream has confirmed it. It waits for
// the entry's turn for up to Options.Timeout, or until ctx ends. Once the attempt has begun, it returns
// when the outcome is known, even if ctx ends.
//
// ready is called when the entry's turn has come: its error refuses the write. unchanged is the If of
// the journal's [journal.NewWrite].
//
// settled is false if upstream may still carry out an earlier write that it did not answer: then the
// write stays pending, to be read back. The write's number is 0 if upstream has accepted it and the
// journal had no room for it.
//
// If versions name their writers, a write with conditions (ready returns a non-nil unchanged) is carried
// out only over the version that this host judged them by; otherwise it is refused with
// [journal.ErrChanged]. A write without conditions always replaces what is there. Its number is also 0 if a
// newer write to the entry came during the request; that one follows it upstream.
//
// Errors: those of ready, *[NotWritten], *[upstream.ServiceAnswer] with upstream's refusal,
// [journal.ErrFull] and *[journal.NamespaceFullError] if nothing was sent for lack of room,
// [journal.ErrAbsent] for a delete of an entry that does not exist, [journal.ErrChanged] if unchanged
// no longer holds after upstream's confirmation (a newer write to the entry then overwrites this one),
// ctx's, and those of a failed journal.
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

// enter enqueues the write, or returns why it cannot be sent.
func (w *through) enter(f *Flusher) (refusal error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, now := f.schedule, f.now()
	q, t, made := s.ensure(w.write.ID)
	q.renew(f.opts.Quotas, now)
	w.task = t
	if refusal := w.refusal(f, q); refusal != nil {
		if made {
			s.drop(q, t)
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

// withdraw removes the write from its line, and returns why its turn has not come; nil if it has.
func (w *through) withdraw(f *Flusher) (refusal error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.schedule
	q, t := s.find(w.write.ID)
	if t != w.task || !s.throughs.remove(w) {
		return nil
	}
	if refusal = w.refusal(f, q); refusal == nil {
		refusal = notSent("its turn did not come within "+f.opts.Timeout.String()+": other requests are under way", time.Second, statusUnavailable)
	}
	if t.through || t.running {
		return refusal
	}
	q.leave(t)
	if t.needless() {
		s.drop(q, t)
	} else {
		s.enqueue(q, t, f.now())
	}
	return refusal
}

// refusal returns why the write cannot be sent now; nil if it only has to wait for its turn. The caller
// holds mu.
func (w *through) refusal(f *Flusher, q *queue) error {
	now := f.now()
	until := func(at instant) time.Duration { return time.Duration(at - now) }
	if refusal := w.tooEarly(now); refusal != nil {
		return refusal
	}
	switch {
	case q.blocked && q.notBefore > now && q.paused != "":
		return notSent("the namespace is paused: "+q.paused, until(q.notBefore), statusUnavailable)
	case q.blocked && q.notBefore > now:
		return notSent("upstream throttles the namespace: "+q.throttled, until(q.notBefore), statusThrottled)
	case q.pace.limited && q.pace.promptAt > now:
		return notSent("the namespace has no write left of its quota now (quota.writes_per_day)", until(q.pace.promptAt), statusThrottled)
	case f.health.Blocks(w.write.Namespace, time.Now()):
		v := f.health.State()
		return notSent("upstream is down: "+v.Reason, v.RetryIn, statusUnavailable)
	}
	return nil
}

// tooEarly refuses the write while the entry is in doubt because of an earlier process's unknown
// requests.
func (w *through) tooEarly(now instant) error {
	d := w.task.doubt()
	if d == nil || d.unknownUntil <= now {
		return nil
	}
	return notSent("upstream may still carry out a request to the entry that an earlier process sent",
		time.Duration(d.unknownUntil-now), statusUnavailable)
}

// run makes the request in the entry's turn. It returns only the journal's errors.
func (w *through) run(ctx context.Context, a *attempt) (err error) {
	defer close(w.done)
	if w.err = w.tooEarly(a.f.now()); w.err == nil {
		w.err = w.decide(a.f)
	}
	if w.err == nil {
		w.err = a.f.opts.Through.Admits(w.write)
	}
	var e ending
	if w.err == nil {
		if e, err = w.send(ctx, a); err != nil {
			w.err = err
			return err
		}
	}
	if a.end(e); e.failed != nil {
		w.err = a.notWritten(e.failed)
	}
	return nil
}

func (w *through) send(ctx context.Context, a *attempt) (ending, error) {
	s, err := w.sendAttempt(a)
	if err != nil {
		return ending{}, err
	}
	// Durable before the request leaves: a crash must not forget that it may land.
	mark := s.write
	mark.Seq = a.newest
	if err := a.f.opts.Journal.MarkSent(mark, a.task.own()...); errors.Is(err, journal.ErrFull) { // guard 14.14
		w.err = err
		return ending{}, nil
	} else if err != nil {
		return ending{}, err
	}
	got, err := s.run(ctx)
	if err != nil {
		return ending{}, err
	}
	a.account(ctx, s, got)
	return w.conclude(ctx, s, got)
}

// decide asks ready whether the write is sent. If versions name their writers, it records the base that
// ready judged: a later answer from upstream may show another state.
func (w *through) decide(f *Flusher) (err error) {
	if !f.opts.Engine.Named(w.write.Namespace) || f.fences.journal == nil {
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

// sendAttempt makes the write's send attempt. Its time is now, but later than that of a pending write
// that it replaces. It has no number before it is journaled.
//
// An exact engine carries out a write with conditions only over the version that they were judged by.
// Any other write replaces what is there; another host's version that this host did not know is kept as
// a dead letter.
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
		ID: w.write.ID, Op: w.write.Op, Value: w.write.Value, ListBytes: w.write.ListBytes, WrittenAt: now, UpdatedAt: now, Since: now,
		Author: w.write.Author,
	}
	if newest.Seq != 0 {
		sending.UpdatedAt, sending.Since = max(now, newest.UpdatedAt+timeTick), newest.Since // guard 17.64
	}
	return &sendAttempt{f: a.f, a: a, write: sending, conditions: c, over: w.base, alone: newest.Seq == 0}, nil
}

// conclude decides what the result of the write's send attempt means. It journals the write if upstream
// holds it, or sets err if upstream did not fail.
func (w *through) conclude(ctx context.Context, s *sendAttempt, got sent) (ending, error) {
	if got.failed != nil {
		return w.failed(ctx, s, got)
	}
	s.answered(got.requested || got.end == fence.Own)
	switch {
	case got.requested, got.end == fence.Own:
		return w.confirmed(s, got.now)
	case got.end == fence.Lost: // the conditions were judged by another version
		w.err = journal.ErrChanged
	case got.end == fence.Held: // there is nothing to delete
		w.err = journal.ErrAbsent
	case got.end == fence.Conflict:
		w.err = notSent(reasonContended, time.Second, statusUnavailable)
	}
	return ending{}, s.a.unmark()
}

// confirmed journals a write that upstream has carried out; now is its version.
func (w *through) confirmed(s *sendAttempt, now upstream.Version) (ending, error) {
	a, e := s.a, ending{admits: letIn}
	if w.write.Op == journal.Delete && !now.Deleted { // upstream did not hold the entry
		last, ok, err := a.f.opts.Journal.Newest(w.write.ID)
		if err != nil {
			return ending{}, err
		}
		if !ok || last.Op == journal.Delete { // it does not exist here either
			w.err = journal.ErrAbsent
			return e, a.unmark()
		}
	}
	w.write.Held = true
	if a.f.exact {
		w.write.At = now.WrittenAt
	}
	written, err := a.f.opts.Journal.Append(w.write)
	switch {
	case errors.Is(err, journal.ErrFull):
		return w.noRoom(a, e)
	case errors.Is(err, journal.ErrChanged):
		// A newer write was acknowledged meanwhile. It goes upstream next, over this one.
		if w.settled = a.f.exact && !s.conditions.OnBase; !w.settled {
			w.err = err
		}
		a.mayHold(contentOf(s.write), false)
		return e, nil
	case err != nil:
		return ending{}, err
	}
	a.sending(written) // nothing older is left to send
	w.written = written
	a.f.fences.confirmed(written, s.sent, s.received)
	written.SentAfter, written.MadeAt = shown(a.f.fences.sentAfter(s.sent), now), now.MadeAt
	if a.f.exact {
		written.CreatedAt = now.CreatedAt
	}
	e, err = a.confirmed(e, written, s.sent)
	w.settled = e.task == settles
	return e, err
}

// noRoom decides about a write that upstream holds but the journal has no room for. The journal drops
// its copy, which is older.
func (w *through) noRoom(a *attempt, e ending) (ending, error) {
	if a.task.doubt() != nil { // an earlier write may land over it, and it could not be sent again
		w.err = &NotWritten{
			Reason: "upstream has carried it out, but may still carry out an earlier request, and the journal has no room to repair that",
			status: statusUnanswered,
		}
		a.f.opts.Through.Doubt(w.write.ID)
		return e, nil
	}
	w.settled = true
	e.task, e.write = settles, journal.Write{Seq: a.newest}
	return e, a.f.opts.Through.Supersede(w.write.ID, a.newest)
}

// failed decides about a write whose request, or whose fence's request, has failed.
func (w *through) failed(ctx context.Context, s *sendAttempt, got sent) (ending, error) {
	a, failed := s.a, got.failed
	if !got.requested && failed.Verdict.BlamesUpstream() {
		read := *failed
		read.Verdict = upstream.Unsent // the write was not sent
		failed = &read
	}
	e := failing("", failed)
	e.task = waitsAsBefore                                    // nothing of the write stays pending
	if !failed.Verdict.BlamesUpstream() || ctx.Err() == nil { // otherwise the process ending caused it
		a.failed(e.failed)
	}
	switch failed.Verdict {
	case upstream.Unanswered, upstream.Transient:
		return e, w.mayHaveArrived(s, failed)
	case upstream.Permanent:
		e.admits = letIn
	}
	return e, a.unmark()
}

// mayHaveArrived records that upstream may have carried out the write. An unanswered request puts the
// entry in doubt. A request that upstream answered with a failure cannot land later.
func (w *through) mayHaveArrived(s *sendAttempt, failed *upstream.Error) error {
	a := s.a
	a.f.mu.Lock()
	nothingPending := a.task.first == 0
	a.f.mu.Unlock()
	switch {
	case failed.Verdict == upstream.Unanswered && !a.f.exact:
		a.mayHold(contentOf(s.write), true)
		a.f.opts.Through.Doubt(w.write.ID) // guard 14.13
	case nothingPending && a.task.doubt() == nil:
		return a.f.opts.Through.EndDoubt(w.write.ID)
	default:
		a.mayHold(contentOf(s.write), false) // guard 17.50
	}
	return nil
}

// notWritten returns the failure of an attempt that has ended, for the caller of a write through.
func (a *attempt) notWritten(failed *upstream.Error) error {
	said, status := *failed, statusBadAnswer
	switch failed.Verdict {
	case upstream.Unanswered:
		return &NotWritten{
			Reason: failed.Reason + ". Upstream may have carried it out, or may do so within " + a.f.opts.LateWindow.String() +
				": read the entry before you try again",
			status: statusUnanswered,
		}
	case upstream.Transient:
		return &NotWritten{
			Reason: "upstream failed: " + failed.Reason + ". It may have carried the write out: read the entry before you try again",
			Wait:   failed.RetryAfter, status: statusBadAnswer,
		}
	case upstream.Unsent:
		return notSent(failed.Reason, max(time.Second, a.f.health.State().RetryIn), statusUnavailable)
	case upstream.Throttled, upstream.Paused:
		a.f.mu.Lock()
		said.RetryAfter = max(0, time.Duration(a.queue.notBefore-a.f.now()))
		a.f.mu.Unlock()
	}
	if said.Answer != nil {
		return upstream.AnswerOf(&said)
	}
	if said.Verdict == upstream.Throttled {
		status = statusThrottled
	}
	return &NotWritten{Reason: said.Reason, Wait: said.RetryAfter, status: status}
}

// awaitThroughs waits until all writes through that exist now have ended, or ctx ends.
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
