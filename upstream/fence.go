package upstream

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/botwired/botwired/journal"
)

// crossing is one write on its way upstream: in a slot, and behind a fence where its namespace has
// one. The fence asks upstream for the entry, compares it with what is known here, and decides
// whether the write goes (contract 17). Its request and the write's follow each other in one slot,
// so that no more than about one round trip remains in which another host may write unseen:
// BotWire has no conditional writes.
type crossing struct {
	*attempt
	write journal.Write
	slot  *inSlot // nil while it has none

	asked          time.Time // when upstream was last asked; zero if it was not
	requests       int       // that the fence has made
	sent, received time.Time // of the write
	took           time.Duration
	proposedAt     int64 // the write's time, in microseconds, when it was last sent to an engine with versions
}

// enter waits for a slot.
func (c *crossing) enter(ctx context.Context) (failed *Error) {
	if c.slot == nil {
		c.slot, failed = c.f.hold(ctx, c.write.Namespace)
	}
	return failed
}

// leave gives the slot back.
func (c *crossing) leave() {
	if c.slot != nil {
		c.slot.release()
		c.slot = nil
	}
}

// fence reports whether the write is to be sent. If it is not, fence has ended the attempt. Its
// errors are the journal's.
func (c *crossing) fence(ctx context.Context) (sends bool, err error) {
	for try := 1; ; try++ {
		if failed := c.enter(ctx); failed != nil {
			return false, c.notFenced(ctx, failed)
		}
		if c.f.opts.BeforeSend != nil {
			c.f.opts.BeforeSend()
		}
		if !c.f.fences.applies(c.write, c.f.usualTrip()) {
			return true, nil
		}
		found, failed := c.askEntry(ctx)
		switch {
		case failed != nil && failed.Verdict == Permanent: // then it holds no such entry, and says so to the write
			c.ends(fenceFailed)
			return true, nil
		case failed != nil:
			return false, c.notFenced(ctx, failed)
		}
		q, err := c.question(found, try)
		if err != nil {
			return false, err
		}
		switch end := judge(q); end {
		case fenceUndecided:
			c.leave()
			if err := sleep(ctx, fencePause); err != nil {
				return false, c.notFenced(ctx, &Error{Verdict: Unsent, Reason: err.Error()})
			}
			continue
		case fenceHeld:
			c.ends(end)
			return false, c.held(found)
		case fenceLost:
			c.ends(end)
			return false, c.lost(found)
		case fenceWon:
			if err := c.keepOverwritten(found); err != nil {
				return false, err
			}
			fallthrough
		default:
			if try == fenceTries || !c.aged(time.Now()) { // guard 17.23
				c.ends(end)
				return true, nil
			}
		}
	}
}

// askEntry is the fence's request.
func (c *crossing) askEntry(ctx context.Context) (found *journal.Observation, failed *Error) {
	c.asked = time.Now()
	c.requests++
	v, err := c.slot.get(ctx, c.write.ID)
	c.took = time.Since(c.asked)
	return v.Observation(), errorOf(err)
}

// question is what the answer asks. It learns from it, too: an entry that nobody has changed has
// the time of this host's last write.
func (c *crossing) question(found *journal.Observation, try int) (*question, error) {
	s := c.f.fences
	base, err := s.journal.Base(c.write.ID)
	if err != nil {
		return nil, err
	}
	d := c.task.doubt()
	q := &question{
		write: c.write, base: base, baseBefore: math.Inf(1), own: c.task.own(), unknown: d != nil && d.unknownUntil != 0,
		found: found, oldBefore: math.Inf(-1),
		losesTies: c.write.LosesTies || s.doubted(c.write.Seq),
	}
	last, ok := s.last(c.write.ID)
	if ok && !base.Known { // the copy has made room for others
		base = journal.Base{Known: true, Present: last.content.Op == journal.Put, Content: last.content, Origin: journal.Origin{Seq: last.seq}}
		q.base = base
	}
	if ok && found != nil && last.seq == base.Origin.Seq && base.Origin.At == 0 {
		q.baseBefore = s.offset.upstreamTime(last.received).Most
		if q.isBase(observed(found)) && found.UpdatedAt > base.Origin.After {
			s.offset.Showed(found.UpdatedAt, last.sent, last.received)
		}
	}
	if c.write.WrittenAt >= unix(c.f.epoch) {
		q.oldBefore = s.offset.upstreamTime(c.f.epoch).Least
	}
	q.offset = s.offset.at(c.write.Seq) // guard 17.21
	width := q.offset.Most - q.offset.Least
	q.mayAsk = try < fenceTries && width > sharp && !math.IsInf(width, 1)
	return q, nil
}

// aged reports whether the answer is too old to go by: the process or the machine has stood still
// since upstream was asked, or upstream takes long.
func (c *crossing) aged(now time.Time) bool { return apart(now, c.asked) > fenceAge }

// apart is the time between two moments of this host's, by that of its clocks by which it is
// longer: the monotonic one may stand still while the machine is suspended.
func apart(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)).Abs())
}

// announce says that the write's request leaves now. The journal announces a newer write before
// anybody is told that it supersedes this one, and waits for the lock to do so: nobody is told
// that a superseded write is sent.
func (c *crossing) announce() {
	if c.f.opts.OnSend == nil {
		return
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.newer == 0 { // guard 13.30
		c.f.opts.OnSend(c.write)
	}
}

// send makes the write's request.
func (c *crossing) send(ctx context.Context) (failed *Error) {
	c.announce()
	c.sent = time.Now()
	_, failed = c.slot.send(ctx, c.write)
	c.received = time.Now()
	c.took += c.received.Sub(c.sent)
	return failed
}

// requested takes in how the write's request has ended.
func (c *crossing) requested(ctx context.Context, failed *Error) error {
	a := c.attempt
	if failed != nil && failed.Verdict == Unsent {
		if err := unmark(a); err != nil {
			return err
		}
	}
	if failed != nil && (failed.Verdict == Unsent || failed.Verdict == Throttled) { // guard 18.13
		a.charge.takeBack()
	}
	if failed != nil && ctx.Err() != nil {
		// The sent mark stays, unless it is certain that the request was not sent.
		a.putBack()
		return nil //nolint:nilerr // to end with the process is no failure
	}
	verdict := Confirmed
	if failed != nil {
		verdict = failed.Verdict
	}
	if a.f.opts.OnOutcome != nil {
		a.f.opts.OnOutcome(c.write.Op, verdict)
	}
	return a.conclude(c, verdict, failed)
}

// confirmed remembers that upstream has carried out the write. If it would tell much of the
// offset between the clocks, it asks upstream when that was.
func (c *crossing) confirmed(ctx context.Context) {
	s := c.f.fences
	s.confirmed(c.write, c.sent, c.received)
	if c.write.Op == journal.Put && s.journal != nil && s.offset.wantsWrite() {
		ctx, cancel := context.WithTimeout(ctx, fenceAge)
		defer cancel()
		found, err := c.slot.get(ctx, c.write.ID)
		if err == nil && contentAt(found) == contentOf(c.write) {
			s.offset.Showed(found.WrittenAt, c.sent, c.received)
		}
	}
	c.write.SentAfter = s.sentAfter(c.sent) // by what is known now
}

// ends reports how the fence has ended.
func (c *crossing) ends(end outcome) {
	if c.f.opts.OnFence != nil {
		c.f.opts.OnFence(end.String(), c.requests)
	}
}

// notFenced ends the attempt: upstream could not be asked, and nothing of the write was sent.
func (c *crossing) notFenced(ctx context.Context, failed *Error) error {
	c.leave()
	c.charge.cancel()
	if err := unmark(c.attempt); err != nil {
		return err
	}
	if ctx.Err() == nil {
		c.ends(fenceFailed)
	}
	what := ""
	if failed.Verdict == Paused {
		what = "comparing with upstream: " // and the write itself might be let in
	}
	c.notRead(ctx, what, failed)
	return nil
}

// held ends the attempt: upstream holds already what the write would leave.
func (c *crossing) held(found *journal.Observation) error {
	c.leave()
	c.charge.cancel()
	c.answered(false)
	if found != nil {
		c.write.SentAfter = found.UpdatedAt - timeTick // it is later than that
	}
	if c.staysPending(c.write, c.f.instant(c.asked)) {
		return nil
	}
	return c.settle(c.write)
}

// keepOverwritten keeps another host's earlier state, which the write is about to overwrite.
func (c *crossing) keepOverwritten(found *journal.Observation) error {
	w := c.write
	if err := c.f.fences.journal.KeepOverwritten(w, *found, reasonWon); err != nil { // guard 17.20
		return err
	}
	c.overruled(found.UpdatedAt)
	return nil
}

// overruled says that another host's state of a time is kept aside.
func (c *crossing) overruled(at float64) {
	w := c.write
	c.f.opts.Logger.Warn("a write overwrites what another host has written before it: that is kept as a dead letter",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "theirs_written_at", wallOf(at))
}

// The reasons of the dead letters of a fence, for people.
const (
	reasonWon  = "another host wrote it, as far as this host knows, before this host's later write, which has overwritten it"
	reasonLost = "another host has written later"
)

// lost ends the attempt: another host's state is later. If a request of this host's may still be
// carried out over it, a copy of the state becomes pending in the write's place, which repairs that.
func (c *crossing) lost(found *journal.Observation) error {
	c.leave()
	c.charge.cancel()
	c.answered(false)
	c.f.mu.Lock()
	if d := c.task.doubt(); d != nil {
		if d.sentAt(c.f.instant(c.asked)); d.over() {
			c.task.retry.doubt = nil
		}
	}
	inDoubt := c.task.doubt() != nil
	c.f.mu.Unlock()
	w := c.write
	if err := c.f.fences.journal.Lose(w, *found, reasonLost, c.task.doubt().contents()...); err != nil {
		return err
	}
	c.f.fences.forget(w.ID)
	if superseded, err := c.superseded(w); superseded || err != nil {
		return err
	}
	c.beaten(found.UpdatedAt)
	if !inDoubt { // guard 17.24
		return nil
	}
	return c.f.fences.guard(c.f.opts.Journal, w, found)
}

// beaten ends the task of a write that has lost against another host's state of a time.
func (c *crossing) beaten(at float64) {
	w := c.write
	c.f.opts.Logger.Warn("another host has written later than a pending write: the write is a dead letter now",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "theirs_written_at", wallOf(at))
	c.finish(w.Seq, true)
}

// wallOf is a time of the journal's, for the log.
func wallOf(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }

// FenceAll has every write that was acknowledged before the call compared with upstream before
// it is sent, whatever flush.fence says: this machine or its data directory may be a copy, or was
// away, and others may have written meanwhile.
func (f *Flusher) FenceAll() {
	upTo := f.opts.Journal.Stats().LastSeq
	f.fences.all(upTo) // guard 19.31
	f.opts.Logger.Info("all pending writes are compared with upstream before they are sent", slog.Uint64("up_to_seq", upTo))
}
