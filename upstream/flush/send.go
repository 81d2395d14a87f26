package flush

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/fence"
	"github.com/botwired/botwired/upstream/limit"
)

// sendAttempt sends one write upstream: in a slot, and behind a fence. The
// fence compares the entry upstream with the state known here, and decides whether the write is sent
// (contract 17).
//
// With an exact engine, the write replaces exactly the version that it was judged against; if another
// host is faster, it is judged again. So no version is overwritten unseen, and no request can land
// later over a confirmed write. With any other engine, the fence's request and the write's share a
// slot, so that another host may write unseen for about one round trip only.
type sendAttempt struct {
	f      *Flusher
	a      *attempt // the attempt that makes it
	write  journal.Write
	slot   *slot // nil while it has none
	fenced bool  // the write is compared with upstream

	asked, heard   time.Time        // when upstream was last asked, and answered; zero: never
	requests       int              // made by the fence
	saw            upstream.Version // what upstream held before the last proposal, as far as it is known
	proposals      int              // how often the write was proposed
	before         bool             // an earlier attempt may have sent it
	sent, received time.Time        // of the write
	took           time.Duration
	proposesAt     int64 // the write's time at its next proposal, in microseconds
}

// sent is the result of a send attempt.
type sent struct {
	// end is fence.Own or fence.Held if upstream holds the write, fence.Lost if another host's state
	// stays, fence.Conflict if other hosts were always faster, and fence.Failed if upstream could not be
	// asked. If requested is true, the verdict decides instead.
	end       fence.Outcome
	requested bool
	now       upstream.Version // what upstream holds, if known
	failed    *upstream.Error  // error of the request, or of the fence's; nil: none
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

// run sends the write if the fence allows it. Its errors are the journal's.
func (s *sendAttempt) run(ctx context.Context) (sent, error) {
	defer s.leave()
	s.fenced = s.f.fences.applies(s.write)
	var seen sighting
	for s.proposals < mostProposals {
		if failed := s.enter(ctx); failed != nil {
			return s.unasked(ctx, failed), nil
		}
		if !seen.known && s.asked.IsZero() && s.proposals == 0 { // the engine may know it without a request
			seen.Version, seen.known = s.f.opts.Engine.Known(s.write.ID)
		}
		if !seen.known && (s.fenced || s.f.exact) {
			if failed := s.ask(ctx, &seen); failed != nil {
				return s.unasked(ctx, failed), nil
			}
		}
		end, err := s.judge(seen)
		if err != nil {
			return sent{}, err
		}
		switch end {
		case fence.Own, fence.Held, fence.Lost:
			s.ends(end)
			return sent{end: end, now: seen.Version}, nil
		case fence.Undecided:
			if failed := s.ask(ctx, &seen); failed != nil {
				return s.unasked(ctx, failed), nil
			}
			continue
		}
		// guard 18.14b
		s.f.opts.Quotas.Cover(s.write.Namespace)   // again: the previous steps may have lasted into the next window
		if err := s.f.beginSending(); err != nil { // guard 14.8
			return sent{}, err
		}
		if s.outdated(time.Now()) { // guard 17.23
			seen = sighting{}
			continue
		}
		if err := s.begins(); err != nil {
			return sent{}, err
		}
		now, conflict, failed := s.propose(ctx, seen.Version)
		if conflict == nil {
			s.ends(end)
			if failed == nil {
				s.carriedOut(now)
			}
			return sent{end: end, requested: true, now: now, failed: failed}, nil
		}
		if err := s.takeBack(); err != nil {
			return sent{}, err
		}
		s.ends(fence.Conflict)
		if failed := s.yield(ctx, conflict, &seen); failed != nil {
			return s.unasked(ctx, failed), nil
		}
	}
	return sent{end: fence.Conflict}, nil
}

// beginSending has the journal keep, on the disk, that something is sent now (contract 14).
func (f *Flusher) beginSending() error {
	if f.window == 0 {
		return nil
	}
	return f.opts.Journal.BeginSending()
}

// takeBack has the journal know that upstream has not carried out what this attempt has sent, and will not.
func (s *sendAttempt) takeBack() error {
	if s.before {
		return nil
	}
	return s.f.opts.Journal.NotSent(s.write)
}

// begins has the journal know that the write is sent.
func (s *sendAttempt) begins() error {
	before, err := s.f.opts.Journal.Sent(s.write) // guard 14.7
	if s.proposals == 0 {
		s.before = before
	}
	return err
}

func (s *sendAttempt) enter(ctx context.Context) (failed *upstream.Error) {
	if s.slot == nil {
		s.slot, failed = s.f.hold(ctx, s.write.Namespace)
	}
	return failed
}

func (s *sendAttempt) leave() {
	if s.slot != nil {
		s.slot.Release()
		s.slot = nil
	}
}

// ask makes the fence's request. If upstream permanently refuses the read, the write is sent all the
// same: upstream refuses that, too, and says why.
func (s *sendAttempt) ask(ctx context.Context, seen *sighting) *upstream.Error {
	s.requests++
	s.asked = time.Now()
	v, err := s.slot.get(ctx, s.write.ID)
	s.heard = time.Now()
	s.took = s.heard.Sub(s.asked)
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
func (s *sendAttempt) judge(seen sighting) (fence.Outcome, error) {
	if !seen.known { // it is not compared
		s.proposesAt = upstream.Micros(s.write.UpdatedAt)
		return fence.Unchanged, nil
	}
	q, err := s.question(seen)
	if err != nil {
		return fence.Failed, err
	}
	// An entry's times grow with its revisions.
	if s.proposesAt = upstream.Micros(q.Write.UpdatedAt); q.Now.Revision != 0 {
		s.proposesAt = max(s.proposesAt, upstream.Micros(q.Now.WrittenAt)+1)
	}
	end := q.Judge()
	if end == fence.Won {
		err = s.f.keepOverwritten(s.write, seen.Version)
	}
	return end, err
}

func (s *sendAttempt) question(seen sighting) (*fence.Question, error) {
	fences, w := s.f.fences, s.write
	q := &fence.Question{
		Write: w, Now: seen.Version, Valued: seen.valued, Refused: seen.refused,
		OldBefore: math.Inf(-1), OnBase: w.Over != nil,
	}
	left, known, err := s.f.opts.Journal.Left(w)
	if err != nil {
		return nil, err
	}
	q.Own, q.ByTime.Unknown = left, !known
	if fences.journal != nil {
		if q.Base, err = fences.journal.Base(w.ID); err != nil {
			return nil, err
		}
	}
	if w.Over != nil {
		q.Base = *w.Over // not what has become known since
	}
	began := upstream.Unix(s.f.epoch)
	old := min(w.WrittenAt, w.Since) >= began // guard 17.63
	if s.named() {
		q.Exactly = &fence.Exactly{Host: s.f.opts.Host, Tombstones: s.f.exact}
		if !s.f.exact { // versions name a time beside upstream's own
			q.Now.WrittenAt, q.Write.UpdatedAt = q.Now.MadeAt, madeAt(w, q.Base)
			q.Base.UpdatedAt, q.Base.Origin.At = q.Base.MadeAt, 0
		}
		if by := q.Now.Writer; by.Host == s.f.opts.Host && by.Seq < w.Seq && fences.journal != nil {
			if err := s.recognise(q, by.Seq); err != nil {
				return nil, err
			}
		}
	} else {
		ahead := fence.Ahead(seen.Date, s.heard, s.heard.Sub(s.asked))
		q.ByTime.WrittenAt = s.writtenAt(ahead)
		began = s.f.steps.now(began, 0, ahead) - fence.Unsure
		if err := s.remember(q); err != nil {
			return nil, err
		}
	}
	if old {
		q.OldBefore = began
	}
	return q, nil
}

// recognise adds what the journal says of a version with the number of an older write of this host. A copied
// data directory may have used the number, too.
func (s *sendAttempt) recognise(q *fence.Question, seq uint64) (err error) {
	id, kept := s.write.ID, s.f.fences.journal
	if !q.Base.Known {
		q.Exactly.Wrote, err = kept.Wrote(id, seq)
		return err
	}
	if q.IsBase() {
		return nil
	}
	written, ok, err := kept.Written(id, seq)
	if ok { // guard 17.59
		q.Own = append(q.Own, written)
	}
	return err
}

// named reports whether the versions of the entry name their writer and time.
func (s *sendAttempt) named() bool { return s.f.opts.Engine.Named(s.write.Namespace) }

// madeAt returns the time that the version of a write names: it is later than the base, which the write's
// maker knew. A copy of an older state keeps its time.
func madeAt(w journal.Write, base journal.Base) float64 {
	if w.LosesTies || w.Fenced || !base.Known || base.MadeAt == 0 {
		return w.WrittenAt
	}
	return max(w.WrittenAt, base.MadeAt+timeTick) // guard 17.41
}

// writtenAt returns the time of the write by upstream's clock, which is ahead of this host's. A copy of an
// older state has upstream's time.
func (s *sendAttempt) writtenAt(ahead float64) float64 {
	if s.write.LosesTies {
		return s.write.WrittenAt
	}
	return s.f.steps.now(s.write.WrittenAt, s.write.Seq, ahead)
}

// remember adds to the question what this host remembers of its own requests.
func (s *sendAttempt) remember(q *fence.Question) error {
	fences := s.f.fences
	q.ByTime.BaseBefore = math.Inf(1)
	last, ok := fences.last(s.write.ID)
	switch {
	case q.Base.Known:
	case ok: // the copy was evicted
		q.ByTime.Evicted = true
		q.Base = journal.Base{Known: true, Present: last.content.Op == journal.Put, Content: last.content, Origin: journal.Origin{Seq: last.seq}}
	case fences.journal != nil && q.Now.Present(): // an earlier process's write may have left it
		base, left, err := fences.journal.Remembered(s.write.ID)
		if err != nil {
			return err
		}
		q.ByTime.Evicted = true
		q.Base, q.Own = base, append(q.Own, left...) // guard 17.51
	}
	if ok && last.seq == q.Base.Origin.Seq && q.Base.Origin.At == 0 {
		q.ByTime.BaseBefore = last.before // guard 17.53
	}
	return nil
}

// outdated reports whether the fence's answer is too old, so that upstream must be asked again. An
// exact engine detects an outdated answer itself.
func (s *sendAttempt) outdated(now time.Time) bool {
	return s.fenced && !s.f.exact && s.requests < fenceTries && apart(now, s.asked) > fenceAge
}

// apart returns the time between two moments by the clock that shows more: the monotonic one may stand
// still while the machine is suspended.
func apart(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)).Abs())
}

// propose asks upstream to replace a version with the write.
func (s *sendAttempt) propose(ctx context.Context, over upstream.Version) (now upstream.Version, conflict *upstream.Conflict, failed *upstream.Error) {
	w := s.write
	if s.proposals++; s.proposals == 1 {
		s.announce()
	}
	s.saw = over
	s.sent = time.Now()
	now, conflict, err := s.slot.swap(ctx, upstream.Proposal{
		ID: w.ID, Op: w.Op, Value: w.Value, ListBytes: w.ListBytes, WrittenAt: float64(s.proposesAt) / 1e6,
		Writer: upstream.Writer{Host: s.f.opts.Host, Seq: w.Seq}, Author: w.Author, Over: over,
	})
	s.received = time.Now()
	s.took += s.received.Sub(s.sent)
	return now, conflict, upstream.ErrorOf(err)
}

// announce calls OnSend for a pending write. It holds the lock, which a newer write needs, so no
// superseded write is announced.
func (s *sendAttempt) announce() {
	if s.f.opts.OnSend == nil {
		return
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.a.newer == 0 { // guard 13.30
		s.f.opts.OnSend(s.write)
	}
}

// yield takes the version that won a conflict. If upstream does not name it, several hosts write the
// entry, and this one pauses without its slot.
func (s *sendAttempt) yield(ctx context.Context, conflict *upstream.Conflict, seen *sighting) *upstream.Error {
	s.requests = 0 // they were reported
	if conflict.Now != nil {
		*seen = sighting{Version: *conflict.Now, known: true, valued: true}
		return nil
	}
	*seen = sighting{}
	s.leave()
	most := min(conflictPauseMost, conflictPauseLeast<<min(s.proposals, 16))
	if err := tasks.Sleep(ctx, rand.N(most)); err != nil {
		return &upstream.Error{Verdict: upstream.Unsent, Reason: err.Error()}
	}
	return nil
}

// carriedOut records when upstream has carried the write out: after it held the state that the fence saw, and
// before it answered. This host's clock and that of upstream's answers may differ, and one of them may be wrong:
// the later one bounds the time.
func (s *sendAttempt) carriedOut(now upstream.Version) {
	if s.f.exact {
		s.is(now)
		return
	}
	s.write.SentAfter, s.write.MadeAt = s.saw.WrittenAt, now.MadeAt
	s.f.fences.confirmed(s.write, s.sent, s.answeredBefore(now))
}

func (s *sendAttempt) answeredBefore(now upstream.Version) float64 {
	return max(upstream.Unix(s.received), upstream.Unix(now.Date)) + fence.DateTick // guard 17.67
}

// is records the version that the write has become. With an exact engine the write's copy takes the
// version's times, even earlier ones: no older version counts any more (contract 7).
func (s *sendAttempt) is(v upstream.Version) {
	s.write.SentAfter = shown(s.write.SentAfter, v) // guard 7.41
	s.write.MadeAt = v.MadeAt
	if s.f.exact && v.Revision != 0 {
		s.write.UpdatedAt, s.write.CreatedAt = v.WrittenAt, v.CreatedAt
	}
}

// shown returns the SentAfter of a write that upstream has shown as a version: no state up to the version's
// time is newer than the write (contract 7).
func shown(sentAfter float64, v upstream.Version) float64 {
	return max(sentAfter, v.WrittenAt-timeTick)
}

// unasked returns the result of an attempt that could not ask upstream. The write was not sent.
func (s *sendAttempt) unasked(ctx context.Context, failed *upstream.Error) sent {
	if ctx.Err() == nil {
		s.ends(fence.Failed)
	}
	return sent{end: fence.Failed, failed: failed}
}

// ends reports the end of a pending write's fence.
func (s *sendAttempt) ends(end fence.Outcome) {
	if s.f.opts.OnFence != nil && (s.fenced || s.f.exact) {
		s.f.opts.OnFence(end.String(), s.requests)
	}
}

// slot makes the requests for a write, one after the other, in one slot of the limit.
type slot struct {
	*limit.Slot
	engine upstream.Engine
}

// hold waits for a slot, which the caller releases. If ctx ends first, the request is not sent.
func (f *Flusher) hold(ctx context.Context, namespace string) (*slot, *upstream.Error) {
	got, err := f.opts.Slots.Acquire(ctx, limit.Writes, namespace)
	if err != nil {
		return nil, &upstream.Error{Verdict: upstream.Unsent, Reason: err.Error()}
	}
	return &slot{got, f.opts.Engine}, nil
}

func (s *slot) do(ctx context.Context, request func() error) error {
	s.Begin()
	err := request()
	if err == nil || ctx.Err() == nil {
		failed := upstream.ErrorOf(err)
		s.Ended(failed.PushesBack(), failed.Says())
	}
	return err
}

func (s *slot) get(ctx context.Context, id journal.ID) (v upstream.Version, err error) {
	err = s.do(ctx, func() error {
		v, err = s.engine.Get(ctx, id)
		return err
	})
	return v, err
}

// swap carries a write out. A conflict is an answer from upstream, not a failure.
func (s *slot) swap(ctx context.Context, p upstream.Proposal) (v upstream.Version, conflict *upstream.Conflict, err error) {
	err = s.do(ctx, func() error {
		v, err = s.engine.Swap(ctx, p)
		if errors.As(err, &conflict) {
			return nil
		}
		return err
	})
	return v, conflict, err
}
