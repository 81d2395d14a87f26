package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/journal"
)

// exactly carries the write out where upstream has versions. A write with conditions takes only the
// place of the version that they were judged by. Any other write takes the place of what is there, and
// is later than that; another host's version that this host did not know is kept as a dead letter. The
// write's number is not known before it is journaled: its version has none.
func (w *through) exactly(ctx context.Context, a *attempt, mark journal.Write) error {
	c, err := w.crossing(a, mark)
	if err != nil {
		return err
	}
	defer c.leave()
	seen, failed := c.sight(ctx)
	for round := 1; failed == nil; round++ {
		if round > exactRounds {
			return w.contended(a)
		}
		end, err := w.judge(c, seen)
		if err != nil {
			return err
		}
		switch end {
		case fenceUndecided:
			seen, failed = c.ask(ctx)
			continue
		case fenceOwn:
			return w.becomes(a, c, seen.Version)
		case fenceLost:
			return w.refusedAs(a, journal.ErrChanged)
		case fenceHeld:
			return w.refusedAs(a, journal.ErrAbsent)
		case fenceWon:
			if err := c.overruleVersion(seen.Version); err != nil {
				return err
			}
		}
		now, conflict, failedSwap := c.swap(ctx, seen.Version)
		switch {
		case conflict != nil:
			seen, failed = c.after(ctx, conflict, round)
		case failedSwap != nil:
			w.outcome(a, failedSwap.Verdict)
			return w.failed(ctx, a, failedSwap)
		default:
			w.outcome(a, Confirmed)
			return w.becomes(a, c, now)
		}
	}
	return w.notSeen(ctx, a, failed)
}

// decideOver is decide where upstream has versions: it notes what this host knew when ready looked. An
// answer of upstream's that comes later shows a state that ready has not judged.
func (w *through) decideOver(fences FenceJournal) error {
	before, err := fences.Base(w.write.ID)
	for range exactRounds {
		if err != nil {
			return err
		}
		if w.write.If, err = w.ready(); err != nil {
			return err
		}
		if w.base, err = fences.Base(w.write.ID); err == nil && w.base == before {
			return nil
		}
		before = w.base
	}
	return errors.Join(err, journal.ErrChanged)
}

// crossing is the write's. Its time is that of its arrival, and later than a pending write's in whose
// place it comes.
func (w *through) crossing(a *attempt, mark journal.Write) (*crossing, error) {
	newest, _, err := a.f.opts.Journal.Newest(w.write.ID)
	if err != nil {
		return nil, err
	}
	w.newest, w.conditional = newest, w.write.If != nil
	if !w.conditional {
		w.write.If = func(latest uint64) bool { return latest == newest.Seq }
	}
	mark.Seq, mark.ListBytes, mark.WrittenAt = 0, w.write.ListBytes, unix(time.Now())
	mark.UpdatedAt = mark.WrittenAt
	if newest.Seq != 0 {
		mark.UpdatedAt = max(mark.UpdatedAt, newest.UpdatedAt+timeTick)
	}
	return &crossing{attempt: a, write: mark}, nil
}

// judge decides whether the write takes the place of a version. fenceHeld says that there is nothing to
// delete, and fenceLost that the conditions were judged by another version.
func (w *through) judge(c *crossing, seen sighting) (outcome, error) {
	q, err := c.exactQuestion(seen)
	if err != nil {
		return fenceFailed, err
	}
	if w.conditional {
		q.base = w.base
		if w.newest.Seq == 0 {
			q.own = nil // ready has not seen what was not confirmed
		}
	}
	absent := !seen.Present()
	switch {
	case c.isProposed(q):
		return fenceOwn, nil
	case absent && w.write.Op == journal.Delete && (w.newest.Seq == 0 || w.newest.Op == journal.Delete):
		return w.certain(q, fenceHeld), nil
	case absent && !q.base.Present:
		return fenceAbsent, nil
	}
	switch end := q.ofOurs(); {
	case end != fenceLost:
		return end, nil
	case w.conditional:
		return w.certain(q, fenceLost), nil
	case !q.fenced, !q.base.Known && q.now.WrittenAt < q.oldBefore:
		return fenceOld, nil
	case !q.hasValue():
		return fenceUndecided, nil
	case q.same():
		return fenceSame, nil
	}
	return fenceWon, nil
}

// certain is a decision against the write, if upstream itself has shown the version.
func (w *through) certain(q *exactQuestion, end outcome) outcome {
	if !q.valued {
		return fenceUndecided
	}
	return end
}

// isProposed reports whether the version is what this crossing has proposed: the answer was lost.
func (c *crossing) isProposed(q *exactQuestion) bool {
	return !c.sent.IsZero() && q.hasValue() && q.now.Writer == Writer{Host: q.host, Seq: q.write.Seq} &&
		micros(q.now.WrittenAt) == c.proposedAt && q.same()
}

func (w *through) outcome(a *attempt, verdict Verdict) {
	if a.f.opts.OnOutcome != nil {
		a.f.opts.OnOutcome(w.write.Op, verdict)
	}
}

// becomes journals the write as the version that upstream has made of it.
func (w *through) becomes(a *attempt, c *crossing, v Version) error {
	c.leave()
	w.write.At = v.WrittenAt
	w.version = v
	return w.confirmed(a, c.sent, true)
}

// refusedAs ends an attempt of which nothing was carried out, with an error for the caller.
func (w *through) refusedAs(a *attempt, err error) error {
	w.err = err
	a.charge.takeBack()
	a.answered(false)
	return errors.Join(unmark(a), w.backOut(a, false))
}

// contended refuses the write: it was always too late.
func (w *through) contended(a *attempt) error {
	return w.refusedAs(a, &NotWritten{Reason: reasonContended + unsent, Wait: time.Second, status: statusUnavailable})
}

// notSeen ends an attempt that could not ask upstream for the version: nothing was sent.
func (w *through) notSeen(ctx context.Context, a *attempt, failed *Error) error {
	read := *failed
	if read.Verdict.blamesUpstream() {
		read.Verdict = Unsent
	}
	return w.failed(ctx, a, &read)
}
