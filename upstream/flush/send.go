package flush

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/fence"
	"github.com/botwired/botwired/upstream/schedule"
)

// This file follows a write from the moment when its entry is due to the moment when the journal has what became of
// it, from top to bottom.
//
//	run      takes the entry's newest write, sends it, and ends the attempt
//	send     looks, judges and proposes, again if another host was faster
//	conclude says what the result means for the write, has the journal record that, and returns an ending
//	end      tells the schedule and the callers; a late window begins there if upstream did not answer (ending.go)
//
// Two moments decide what a crash leaves. Before proposes, the disk has the time of what is sent and, if a newer write
// takes its place, what it may leave upstream: from then on it may land, however the process ends. And once Settle,
// DeadLetter or Lose has returned, the write is pending no more. Between the two it is pending, and the next process
// looks at upstream again.

// attempt is one run of a task of the schedule. The task belongs to it until end has given it back, with its fate.
type attempt struct {
	*schedule.Attempt
	f *Flusher

	write  journal.Write // the entry's newest one
	slot   *slot         // nil while it has none
	fenced bool          // the write is compared with upstream

	asked, heard   time.Time        // when upstream was last asked, and answered; zero: never
	requests       int              // made by the fence
	saw            upstream.Version // what upstream held before the last proposal, as far as it is known
	proposals      int              // how often the write was proposed
	sentBefore     bool             // an earlier attempt may have sent it
	sent, received time.Time        // of the write
	took           time.Duration
	proposesAt     int64 // the write's time at its next proposal, in microseconds

	charged   bool // the quota counts the request
	inFlight  bool // the quota has counted the request
	requested bool // the write's request was made
	told      bool // the health knows how upstream is
	down      bool // upstream is down, as the failure shows
}

// result is what came of sending.
type result struct {
	// end is fence.Own or fence.Held if upstream holds the write, fence.Lost if another host's state
	// stays, fence.Conflict if other hosts were always faster, and fence.Failed if upstream could not be
	// asked. If requested is true, the verdict decides instead.
	end       fence.Outcome
	requested bool
	now       upstream.Version // what upstream holds, if known
	failed    *upstream.Error  // error of the request, or of the fence's; nil: none
}

// unanswered reports whether upstream may still carry out the write's request.
func (r *result) unanswered() bool {
	return r.requested && r.failed != nil && r.failed.Verdict == upstream.Unanswered
}

// sighting is an entry's last version, as far as it is known.
type sighting struct {
	upstream.Version
	known   bool
	valued  bool // upstream itself has returned it, with its value
	refused bool // upstream permanently refuses to return it
}

const (
	// mostProposals bounds how often one attempt proposes a write. After that, the task backs off.
	mostProposals = 20
	// The pause after a conflict without a known winner, with full jitter. Without it, the hosts that
	// write one entry keep blocking each other.
	conflictPauseLeast = 2 * time.Millisecond
	conflictPauseMost  = 200 * time.Millisecond
	// fenceAge bounds the age of a fence's answer when the write is sent. If the process or the machine
	// was stopped for longer, upstream is asked again.
	fenceAge = 2 * time.Second
	// fenceTries bounds how often a fence asks: otherwise an upstream slower than fenceAge would never
	// get a write.
	fenceTries = 5
	// timeTick is the smallest difference between two times of upstream, in seconds.
	timeTick = 1e-6
)

// run sends the entry's newest write, and ends the attempt. It returns only the journal's errors, which end the
// flusher.
func (a *attempt) run(ctx context.Context) error {
	defer a.f.signal()
	e, err := a.makes(ctx)
	if err != nil {
		return err
	}
	a.end(e)
	return nil
}

// makes makes the attempt, and returns what it means.
func (a *attempt) makes(ctx context.Context) (e ending, err error) {
	if !a.Counts { // guard 18.40
		return ending{fate: schedule.Completes, write: journal.Write{Seq: a.Newest}}, nil // only a window had to end
	}
	ok := false
	if a.write, ok, err = a.f.opts.Journal.Newest(a.ID()); err != nil {
		return ending{}, err
	}
	if !ok {
		return ending{fate: schedule.Completes, write: journal.Write{Seq: a.Newest}}, nil
	}
	if err := a.f.opts.Journal.MaySend(); errors.Is(err, journal.ErrFull) { // guard 12.5
		// guard 3.7
		return ending{fate: schedule.WaitsForRoom}, nil
	} else if err != nil {
		return ending{}, err
	}
	// Before the fence asks: a record between its answer and the write would take time.
	a.f.opts.Quotas.Cover(a.write.Namespace) // guard 18.14
	a.takesWrite()
	got, err := a.send(ctx)
	if err != nil {
		return ending{}, err
	}
	a.account(ctx, got)
	return a.conclude(ctx, got)
}

// takesWrite has the schedule know which write is sent: only a newer one is left to send.
func (a *attempt) takesWrite() {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.f.schedule.SetWrite(a.Attempt, a.write.Seq)
	if a.f.diskFull {
		a.f.diskFull = false
		a.f.mu.Log(slog.LevelInfo, "there is room on the disk again: writes go upstream")
	}
}

// send sends the write if the fence allows it: it asks for the entry's state upstream, judges that, and proposes the
// write, all in one slot (contract 17). Its errors are the journal's.
//
// With an exact engine, the write replaces exactly the version that it was judged against; if another host is faster,
// it is judged again. So no version is overwritten unseen, and no request can land later over a confirmed write. With any
// other engine, another host may write unseen for about one round trip.
func (a *attempt) send(ctx context.Context) (result, error) {
	defer a.releaseSlot()
	a.fenced = a.f.fences.applies(a.write)
	var seen sighting
	for a.proposals < mostProposals {
		if failed := a.acquireSlot(ctx); failed != nil {
			return a.unasked(ctx, failed), nil
		}
		if !seen.known && a.asked.IsZero() && a.proposals == 0 { // the engine may know it without a request
			seen.Version, seen.known = a.f.opts.Engine.Known(a.write.ID)
		}
		if !seen.known && (a.fenced || a.f.exact) {
			if failed := a.look(ctx, &seen); failed != nil {
				return a.unasked(ctx, failed), nil
			}
		}
		end, err := a.judge(seen)
		if err != nil {
			return result{}, err
		}
		switch end {
		case fence.Own, fence.Held, fence.Lost:
			a.countFence(end)
			return result{end: end, now: seen.Version}, nil
		case fence.Undecided:
			if failed := a.look(ctx, &seen); failed != nil {
				return a.unasked(ctx, failed), nil
			}
			continue
		}
		if ready, err := a.commits(); err != nil {
			return result{}, err
		} else if !ready {
			seen = sighting{}
			continue
		}
		now, conflict, failed := a.propose(ctx, seen.Version)
		if conflict == nil {
			a.countFence(end)
			if failed == nil {
				a.carriedOut(now)
			}
			return result{end: end, requested: true, now: now, failed: failed}, nil
		}
		if err := a.unmarkSent(); err != nil {
			return result{}, err
		}
		a.countFence(fence.Conflict)
		if failed := a.yield(ctx, conflict, &seen); failed != nil {
			return a.unasked(ctx, failed), nil
		}
	}
	return result{end: fence.Conflict}, nil
}

func (a *attempt) acquireSlot(ctx context.Context) (failed *upstream.Error) {
	if a.slot == nil {
		a.slot, failed = a.f.hold(ctx, a.write.Namespace)
	}
	return failed
}

func (a *attempt) releaseSlot() {
	if a.slot != nil {
		a.slot.Release()
		a.slot = nil
	}
}

// look makes the fence's request. If upstream permanently refuses the read, the write is sent all the
// same: upstream refuses that, too, and says why.
func (a *attempt) look(ctx context.Context, seen *sighting) *upstream.Error {
	a.requests++
	a.asked = time.Now()
	v, err := a.slot.get(ctx, a.write.ID)
	a.heard = time.Now()
	a.took = a.heard.Sub(a.asked)
	failed := upstream.ErrorOf(err)
	if failed != nil && failed.Verdict == upstream.Permanent {
		*seen = sighting{known: true, refused: true}
		return nil
	}
	*seen = sighting{Version: v, known: true, valued: true}
	return failed
}

// judge decides whether the write is sent. It keeps another host's state that the write is about to
// overwrite.
func (a *attempt) judge(seen sighting) (fence.Outcome, error) {
	if !seen.known { // it is not compared
		a.proposesAt = upstream.Micros(a.write.UpdatedAt)
		return fence.Unchanged, nil
	}
	q, err := a.question(seen)
	if err != nil {
		return fence.Failed, err
	}
	// An entry's times grow with its revisions.
	if a.proposesAt = upstream.Micros(q.Write.UpdatedAt); q.Now.Revision != 0 {
		a.proposesAt = max(a.proposesAt, upstream.Micros(q.Now.WrittenAt)+1)
	}
	end := q.Judge()
	if end == fence.Won {
		err = a.f.keepOverwritten(a.write, seen.Version)
	}
	return end, err
}

// commits has the disk know what is sent now, before it leaves. It returns false if what was seen is too old by then:
// upstream must be asked.
func (a *attempt) commits() (ready bool, err error) {
	// guard 18.14b
	a.f.opts.Quotas.Cover(a.write.Namespace)          // again: the previous steps may have lasted into the next window
	before, err := a.f.opts.Journal.MarkSent(a.write) // guard 14.7
	if err != nil {
		return false, err
	}
	if a.proposals == 0 {
		a.sentBefore = before
	}
	if a.f.window > 0 {
		if err := a.f.opts.Journal.BeginSending(); err != nil { // guard 14.8
			return false, err
		}
	}
	if a.outdated(time.Now()) { // guard 17.23
		return false, a.unmarkSent()
	}
	return true, nil
}

// outdated reports whether the fence's answer is too old, or the write before is, for which there was none. An exact
// engine detects that itself.
func (a *attempt) outdated(now time.Time) bool {
	if !a.fenced { // guard 17.75
		a.fenced = a.f.fences.applies(a.write)
		return a.fenced && !a.f.exact
	}
	return !a.f.exact && a.requests < fenceTries && apart(now, a.asked) > fenceAge
}

// apart returns the time between two moments by the clock that shows more: the monotonic one may stand
// still while the machine is suspended.
func apart(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)).Abs())
}

// unmarkSent has the journal know that upstream has not carried out what this attempt has sent, and will not.
func (a *attempt) unmarkSent() error {
	if a.sentBefore {
		return nil
	}
	return a.f.opts.Journal.UnmarkSent(a.write)
}

// propose asks upstream to replace a version with the write.
func (a *attempt) propose(ctx context.Context, over upstream.Version) (now upstream.Version, conflict *upstream.Conflict, failed *upstream.Error) {
	w := a.write
	if a.proposals++; a.proposals == 1 {
		a.announce()
	}
	a.saw = over
	a.sent = time.Now()
	now, conflict, err := a.slot.swap(ctx, upstream.Proposal{
		ID: w.ID, Op: w.Op, Value: w.Value, ListBytes: w.ListBytes, WrittenAt: float64(a.proposesAt) / 1e6,
		Writer: upstream.Writer{Host: a.f.opts.Host, Seq: w.Seq}, Author: w.Author, Over: over,
	})
	a.received = time.Now()
	a.took += a.received.Sub(a.sent)
	return now, conflict, upstream.ErrorOf(err)
}

// announce calls OnSend for a pending write. It holds the lock, which a newer write needs, so no
// superseded write is announced.
func (a *attempt) announce() {
	if a.f.opts.OnSend == nil {
		return
	}
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if !a.f.schedule.HasNewer(a.Attempt, a.write.Seq) { // guard 13.30
		a.f.opts.OnSend(a.write)
	}
}

// yield takes the version that won a conflict. If upstream does not name it, several hosts write the
// entry, and this one pauses without its slot.
func (a *attempt) yield(ctx context.Context, conflict *upstream.Conflict, seen *sighting) *upstream.Error {
	a.requests = 0 // they were reported
	if conflict.Now != nil {
		*seen = sighting{Version: *conflict.Now, known: true, valued: true}
		return nil
	}
	*seen = sighting{}
	a.releaseSlot()
	most := min(conflictPauseMost, conflictPauseLeast<<min(a.proposals, 16))
	if err := tasks.Sleep(ctx, rand.N(most)); err != nil {
		return &upstream.Error{Verdict: upstream.Unsent, Reason: err.Error()}
	}
	return nil
}

// carriedOut records when upstream has carried the write out: after it held the state that the fence saw, and
// before it answered. This host's clock and that of upstream's answers may differ, and one of them may be wrong:
// the later one bounds the time.
func (a *attempt) carriedOut(now upstream.Version) {
	if a.f.exact {
		a.is(now)
		return
	}
	a.write.SentAfter, a.write.MadeAt = a.saw.WrittenAt, now.MadeAt
	a.f.fences.confirmed(a.write, a.sent, a.answeredBefore(now))
}

func (a *attempt) answeredBefore(now upstream.Version) float64 {
	return max(upstream.Unix(a.received), upstream.Unix(now.Date)) + fence.DateTick // guard 17.67
}

// is records the version that the write has become. With an exact engine the write's copy takes the
// version's times, even earlier ones: no older version counts any more (contract 7).
func (a *attempt) is(v upstream.Version) {
	// No state up to the version's time is newer than the write.
	a.write.SentAfter = max(a.write.SentAfter, v.WrittenAt-timeTick) // guard 7.41
	a.write.MadeAt = v.MadeAt
	if a.f.exact && v.Revision != 0 {
		a.write.UpdatedAt, a.write.CreatedAt = v.WrittenAt, v.CreatedAt
	}
}

// unasked returns the result of an attempt that could not ask upstream. The write was not sent.
func (a *attempt) unasked(ctx context.Context, failed *upstream.Error) result {
	if ctx.Err() == nil {
		a.countFence(fence.Failed)
	}
	return result{end: fence.Failed, failed: failed}
}

// countFence reports the end of a pending write's fence to OnFence.
func (a *attempt) countFence(end fence.Outcome) {
	if a.f.opts.OnFence != nil && (a.fenced || a.f.exact) {
		a.f.opts.OnFence(end.String(), a.requests)
	}
}

// account refunds the quota for a write that upstream did not count, and reports the verdict.
func (a *attempt) account(ctx context.Context, got result) {
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
		a.f.opts.OnOutcome(a.write.Op, verdict)
	}
}

// conclude decides what the result means, and has the journal record it.
func (a *attempt) conclude(ctx context.Context, got result) (ending, error) {
	failed := got.failed
	if failed == nil {
		a.answered(got.requested)
	}
	// Any other answer may come from something in between, though upstream has carried the write out.
	if got.requested && failed != nil && (failed.Verdict == upstream.Unsent || failed.Verdict == upstream.Permanent || failed.NamespaceFull) { // guard 17.19
		if err := a.unmarkSent(); err != nil {
			return ending{}, err
		}
	}
	switch {
	case failed != nil && ctx.Err() != nil:
		return ending{fate: schedule.GoesAgain, unanswered: got.unanswered()}, nil //nolint:nilerr // to end with the process is no failure
	case failed != nil:
		return a.fails(got)
	case a.Early: // guard 14.18
		return ending{fate: schedule.WaitsForNextStart}, nil
	case got.requested:
		return a.settle(ending{admits: letIn})
	case got.end == fence.Own, got.end == fence.Held: // upstream already holds what the write would leave
		a.is(got.now)
		a.f.fences.confirmed(a.write, time.Time{}, got.now.WrittenAt) // guard 17.60
		return a.settle(ending{})
	case got.end == fence.Lost:
		return a.lose(got.now)
	}
	// The task backs off as after a failure, though upstream is healthy.
	return failing("", &upstream.Error{Verdict: upstream.Transient, Reason: reasonContended}), nil
}

// fails decides about a write whose request, or whose fence's, has failed. It stays pending, unless upstream refuses
// it for good.
func (a *attempt) fails(got result) (ending, error) {
	what := ""
	if !got.requested && got.failed.Verdict == upstream.Paused {
		what = "comparing with upstream: " // it might still let the write itself in
	}
	e := failing(what, got.failed)
	e.unanswered = got.unanswered()
	a.failed(e.failed)
	if got.requested && got.failed.Verdict == upstream.Permanent && !a.Early {
		return a.refused(got.failed)
	}
	return e, nil // guard 13.4
}

// settle settles the write: upstream holds it, and nothing older can land over it.
func (a *attempt) settle(e ending) (ending, error) {
	if err := a.f.opts.Journal.Settle(a.write); err != nil {
		return ending{}, err
	}
	if a.f.opts.OnSettled != nil {
		a.f.opts.OnSettled(a.write)
	}
	e.fate, e.write = schedule.Completes, a.write
	return e, nil
}

// lose has the write leave the pending set: another host's state is later.
func (a *attempt) lose(v upstream.Version) (e ending, err error) {
	w := a.write
	if v.Deleted {
		err = a.f.fences.journal.LoseToDelete(w, v.WrittenAt, reasonLost)
	} else {
		err = a.f.fences.journal.Lose(w, *v.Observation(), reasonLost)
	}
	if err != nil {
		return ending{}, err
	}
	a.f.fences.forget(w.ID)
	text := "another host has written later than a pending write: the write is kept in the entry's history, as lost"
	if w.LosesTies {
		text = "another host has written later than an imported or restored value: that value is given up"
	}
	return a.dies(ending{}, w, slog.LevelWarn, text, "theirs_written_at", wallOf(cmp.Or(v.MadeAt, v.WrittenAt)))
}

// dies decides about a write that upstream does not hold, and logs that. The journal has recorded no such end if
// a newer write to the entry was pending. Callers then wait for the newer one.
func (a *attempt) dies(e ending, w journal.Write, level slog.Level, text string, args ...any) (ending, error) {
	a.f.mu.Lock()
	newer := a.f.schedule.HasNewer(a.Attempt, w.Seq)
	a.f.mu.Unlock()
	if newer { // guard 13.17
		if _, dead, err := a.f.opts.Journal.IsDead(w.ID, w.Seq); !dead || err != nil {
			e.fate = schedule.StartsOver
			return e, err
		}
	}
	args = append([]any{"namespace", w.Namespace, "key", w.Key, "seq", w.Seq}, args...)
	a.f.opts.Logger.Log(context.Background(), level, text, args...)
	e.fate, e.write, e.dead = schedule.Completes, w, true
	return e, nil
}
