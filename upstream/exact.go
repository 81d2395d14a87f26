package upstream

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// exactRounds bounds how often one attempt judges an entry. Where other hosts write it faster than
	// that, the task backs off like one that has failed.
	exactRounds = 20
	// The pause after a conflict of which nobody knows who has won, with full jitter. Without it, the
	// hosts that write one entry keep each other from writing it.
	conflictPauseLeast = 2 * time.Millisecond
	conflictPauseMost  = 200 * time.Millisecond
)

// sighting is an entry's last version, as far as it is known.
type sighting struct {
	Version
	valued bool // with its value
}

// exactly carries the attempt's write out where upstream has versions (contract 17). The write takes the
// place of the version that it was judged against, or of none: if another host is faster, it is judged
// again. So no version is overwritten unseen, and no request can land later over a confirmed write.
func (c *crossing) exactly(ctx context.Context) error {
	seen, failed := c.sight(ctx)
	for round := 1; failed == nil; round++ {
		if round > exactRounds {
			return c.contended()
		}
		if c.f.opts.BeforeSend != nil {
			c.f.opts.BeforeSend()
		}
		q, err := c.exactQuestion(seen)
		if err != nil {
			return err
		}
		end := q.judge()
		switch end {
		case fenceUndecided:
			seen, failed = c.ask(ctx)
			continue
		case fenceOwn, fenceHeld:
			c.ends(end)
			return c.heldAs(seen.Version)
		case fenceLost:
			c.ends(end)
			return c.lostTo(seen.Version)
		case fenceWon:
			if err := c.overruleVersion(seen.Version); err != nil {
				return err
			}
		}
		now, conflict, failedSwap := c.swap(ctx, seen.Version)
		if conflict == nil {
			if failedSwap == nil {
				c.ends(end)
				c.is(now)
			}
			return c.requested(ctx, failedSwap)
		}
		c.ends(fenceConflict)
		seen, failed = c.after(ctx, conflict, round)
	}
	return c.notFenced(ctx, failed)
}

// exactQuestion is what a version asks.
func (c *crossing) exactQuestion(seen sighting) (*exactQuestion, error) {
	s := c.f.fences
	q := &exactQuestion{
		write: c.write, host: c.f.opts.Host, now: seen.Version, valued: seen.valued, fenced: s.judges(c.write),
		own: c.task.own(), losesTies: s.doubted(c.write.Seq), oldBefore: math.Inf(-1),
	}
	if c.write.WrittenAt >= unix(c.f.epoch) {
		q.oldBefore = unix(c.f.epoch)
	}
	if s.journal == nil {
		return q, nil
	}
	var err error
	q.base, err = s.journal.Base(c.write.ID)
	return q, err
}

// sight finds an entry's last version, in a slot. It may be old: a swap finds out.
func (c *crossing) sight(ctx context.Context) (sighting, *Error) {
	if failed := c.enter(ctx); failed != nil {
		return sighting{}, failed
	}
	if v, ok := c.f.opts.Engine.Known(c.write.ID); ok {
		return sighting{v, false}, nil
	}
	return c.ask(ctx)
}

// ask asks upstream for an entry's last version. If upstream refuses for good to say, it refuses the
// write, too, and says why.
func (c *crossing) ask(ctx context.Context) (sighting, *Error) {
	c.requests++
	c.asked = time.Now()
	v, err := c.slot.get(ctx, c.write.ID)
	c.took += time.Since(c.asked)
	failed := errorOf(err)
	if failed != nil && failed.Verdict == Permanent {
		return sighting{Version{}, true}, nil
	}
	return sighting{v, true}, failed
}

// swap has upstream carry the write out in the place of a version. The write becomes later than that:
// an entry's times grow with its revisions, whatever the clocks say.
func (c *crossing) swap(ctx context.Context, over Version) (now Version, conflict *Conflict, failed *Error) {
	w := c.write
	c.f.opts.Quotas.cover(w.Namespace) // anew: what came before may have lasted into the next window
	if c.sent.IsZero() {
		c.announce()
	}
	at := micros(w.UpdatedAt)
	if over.Revision != 0 {
		at = max(at, micros(over.WrittenAt)+1)
	}
	c.proposedAt = at
	c.sent = time.Now()
	now, conflict, err := c.slot.swap(ctx, Proposal{
		ID: w.ID, Op: w.Op, Value: w.Value, ListBytes: w.ListBytes, WrittenAt: float64(at) / 1e6,
		Writer: Writer{Host: c.f.opts.Host, Seq: w.Seq}, Over: over,
	})
	c.received = time.Now()
	c.took += c.received.Sub(c.sent)
	return now, conflict, errorOf(err)
}

// after finds the version that has won a conflict. If upstream does not name it, several hosts write
// the entry, and this one waits a moment, without its slot.
func (c *crossing) after(ctx context.Context, conflict *Conflict, round int) (sighting, *Error) {
	c.requests = 0 // they are reported
	if conflict.Now != nil {
		return sighting{*conflict.Now, true}, nil
	}
	c.leave()
	most := min(conflictPauseMost, conflictPauseLeast<<min(round, 16))
	if err := sleep(ctx, rand.N(most)); err != nil {
		return sighting{}, &Error{Verdict: Unsent, Reason: err.Error()}
	}
	if failed := c.enter(ctx); failed != nil {
		return sighting{}, failed
	}
	return c.ask(ctx)
}

// is notes which version the write has become. Its copy has the version's times, also where the
// version is earlier than a write that says the same, and no version from before it counts any more
// (contract 7).
func (c *crossing) is(v Version) {
	c.write.UpdatedAt = v.WrittenAt
	c.write.SentAfter, c.write.CreatedAt = v.WrittenAt-timeTick, v.CreatedAt
}

// heldAs ends the attempt: upstream holds already what the write would leave.
func (c *crossing) heldAs(v Version) error {
	c.leave()
	c.charge.cancel()
	c.heard()
	c.is(v)
	return c.settle(c.write)
}

// overruleVersion keeps another host's earlier version, whose place the write is about to take.
func (c *crossing) overruleVersion(v Version) error {
	if !v.Deleted {
		return c.keepOverwritten(v.Observation())
	}
	if err := c.f.fences.journal.KeepOverwrittenDelete(c.write, v.WrittenAt, reasonWon); err != nil {
		return err
	}
	c.overruled(v.WrittenAt)
	return nil
}

// lostTo ends the attempt: another host's version is later.
func (c *crossing) lostTo(v Version) (err error) {
	c.leave()
	c.charge.cancel()
	c.heard()
	if v.Deleted {
		err = c.f.fences.journal.LoseToDelete(c.write, v.WrittenAt, reasonLost)
	} else {
		err = c.f.fences.journal.Lose(c.write, *v.Observation(), reasonLost)
	}
	if err != nil {
		return err
	}
	if superseded, err := c.superseded(c.write); superseded || err != nil {
		return err
	}
	c.beaten(v.WrittenAt)
	return nil
}

// heard records that upstream gave an answer, if it was asked: what the engine knows without asking says
// nothing of upstream's health.
func (c *crossing) heard() {
	if c.asked.IsZero() && c.sent.IsZero() {
		c.f.health.release(c.probe)
		return
	}
	c.answered(false)
}

// reasonContended is why an attempt ends that was always too late.
const reasonContended = "other hosts write the entry faster than this one gets its write in"

// contended ends the attempt: it waits like one that has failed, though upstream is well.
func (c *crossing) contended() error {
	c.leave()
	c.charge.cancel()
	if err := unmark(c.attempt); err != nil {
		return err
	}
	c.answered(false)
	c.tryAgain(&Error{Verdict: Transient, Reason: reasonContended, Answered: true}, false)
	return nil
}
