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

// sendAttempt takes one write upstream: in a slot, and behind a fence where its namespace has one. The
// fence compares the entry upstream with the state known here, and decides whether the write is sent
// (contract 17).
//
// In front of an exact engine the write replaces the very version that it was judged against: if another
// host is faster, it is judged again. So no version is overwritten unseen, and no request can land later
// over a confirmed write. In front of any other engine the fence's request and the write's share a slot,
// so that another host may write unseen for about one round trip only.
type sendAttempt struct {
	f          *Flusher
	a          *attempt // that makes it
	write      journal.Write
	conditions *fence.Conditions // of a write through; nil for a pending write
	over       journal.Base      // the conditions were judged by it
	alone      bool              // nothing of the entry was pending then
	slot       *slot             // nil while it has none
	fenced     bool              // it is compared

	asked          time.Time // when upstream was last asked; zero if it was not
	requests       int       // that the fence has made
	proposals      int       // of the write
	sent, received time.Time // of the write
	took           time.Duration
	proposedAt     int64 // the write's time, in microseconds, when it was last proposed
}

// sent is the result of a send attempt.
type sent struct {
	// end is fence.Own or fence.Held if upstream holds the write, fence.Lost if another host's state
	// stays, fence.Conflict if other hosts were always faster, and fence.Failed if upstream could not be
	// asked. If the write was requested, that counts.
	end       fence.Outcome
	requested bool
	now       upstream.Version // what upstream holds, as far as that is known
	failed    *upstream.Error  // of the request, or of the fence's; nil if it has not failed
}

func (e *sent) verdict() upstream.Verdict {
	if e.failed == nil {
		return upstream.Confirmed
	}
	return e.failed.Verdict
}

// sighting is an entry's last version, as far as it is known.
type sighting struct {
	upstream.Version
	known   bool
	valued  bool // upstream itself has shown it, with its value
	refused bool // upstream refuses for good to show it
}

const (
	// mostProposals bounds how often one attempt proposes a write. After that, the task backs off.
	mostProposals = 20
	// The pause after a conflict without a known winner, with full jitter. Without it, the hosts that
	// write one entry keep each other from writing it.
	conflictPauseLeast = 2 * time.Millisecond
	conflictPauseMost  = 200 * time.Millisecond
	// fenceAge bounds the age of a fence's answer when the write leaves. If the process or the machine has
	// stood still longer, upstream is asked once more.
	fenceAge = 2 * time.Second
	// fenceTries bounds how often a fence asks: an upstream slower than fenceAge would never get a write.
	fenceTries = 5
	// fencePause is how long an undecided fence waits. The Date of an answer made later in the same
	// second says more.
	fencePause = 300 * time.Millisecond
	// sharp is a width of the offset's estimate that another Date does not narrow, in seconds.
	sharp = 0.25
	// timeTick is the least difference between two times of upstream's, in seconds.
	timeTick = 1e-6
)

// run carries the write upstream, if it may. Its errors are the journal's.
func (s *sendAttempt) run(ctx context.Context) (sent, error) {
	defer s.leave()
	var seen sighting
	for s.proposals < mostProposals {
		if failed := s.enter(ctx); failed != nil {
			return s.unasked(ctx, failed), nil
		}
		s.look(&seen)
		if !seen.known && (s.fenced || s.f.exact) {
			if failed := s.ask(ctx, &seen); failed != nil {
				return s.unasked(ctx, failed), nil
			}
			continue // what BeforeSend says counts when the write leaves
		}
		end, err := s.judge(seen)
		if err != nil {
			return sent{}, err
		}
		switch {
		case end == fence.Own, end == fence.Held, end == fence.Lost:
			s.ends(end)
			return sent{end: end, now: seen.Version}, nil
		case end == fence.Undecided:
			if failed := s.askAgain(ctx, &seen); failed != nil {
				return s.unasked(ctx, failed), nil
			}
			continue
		case s.outdated(time.Now()): // guard 17.23
			seen = sighting{}
			continue
		}
		now, conflict, failed := s.propose(ctx, seen.Version)
		if conflict == nil {
			s.ends(end)
			if failed == nil {
				s.carriedOut(ctx, now)
			}
			return sent{end: end, requested: true, now: now, failed: failed}, nil
		}
		s.ends(fence.Conflict)
		if failed := s.yield(ctx, conflict, &seen); failed != nil {
			return s.unasked(ctx, failed), nil
		}
	}
	return sent{end: fence.Conflict}, nil
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

// look decides whether the write is compared, and takes the version that the engine knows without asking.
func (s *sendAttempt) look(seen *sighting) {
	if s.f.opts.BeforeSend != nil {
		s.f.opts.BeforeSend()
	}
	// Writes through have no fence in front of an engine that compares by asking.
	// What a fence was told counts, also if nothing would be asked by now.
	// guard 17.38
	s.fenced = s.fenced || (s.f.exact || s.conditions == nil) && s.f.fences.applies(s.write, s.f.usualTrip())
	if !seen.known && s.asked.IsZero() && s.proposals == 0 {
		seen.Version, seen.known = s.f.opts.Engine.Known(s.write.ID)
	}
}

// ask makes the fence's request. If upstream refuses the read for good, it refuses the write, too, and
// says why.
func (s *sendAttempt) ask(ctx context.Context, seen *sighting) *upstream.Error {
	s.requests++
	s.asked = time.Now()
	v, err := s.slot.get(ctx, s.write.ID)
	s.took = time.Since(s.asked)
	failed := upstream.ErrorOf(err)
	if failed != nil && failed.Verdict == upstream.Permanent {
		*seen = sighting{known: true, refused: true}
		return nil
	}
	*seen = sighting{Version: v, known: true, valued: true}
	return failed
}

// askAgain asks for the value of a version. If that is known, it waits until another answer says more
// about the offset.
func (s *sendAttempt) askAgain(ctx context.Context, seen *sighting) *upstream.Error {
	if !seen.valued {
		return s.ask(ctx, seen)
	}
	*seen = sighting{}
	s.leave()
	if err := tasks.Sleep(ctx, fencePause); err != nil {
		return &upstream.Error{Verdict: upstream.Unsent, Reason: err.Error()}
	}
	return nil
}

// judge decides whether the write goes, and keeps another host's state that it is about to overwrite.
func (s *sendAttempt) judge(seen sighting) (fence.Outcome, error) {
	if !seen.known {
		return fence.Unchanged, nil // it is not compared
	}
	q, err := s.question(seen)
	if err != nil {
		return fence.Failed, err
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
		Write: w, Own: s.a.task.own(), Now: seen.Version, Valued: seen.valued, Refused: seen.refused, Fenced: s.fenced,
		LosesTies: w.LosesTies || fences.doubted(w.Seq), OldBefore: math.Inf(-1), Conditions: s.conditions,
	}
	if fences.journal != nil {
		var err error
		if q.Base, err = fences.journal.Base(w.ID); err != nil {
			return nil, err
		}
	}
	began := upstream.Unix(s.f.epoch)
	old := w.WrittenAt >= began
	if s.f.exact {
		q.Exactly = &fence.Exactly{Host: s.f.opts.Host, ProposedAt: s.proposedAt}
	} else {
		began = fences.offset.UpstreamTime(s.f.epoch).Least
		s.time(q)
	}
	if old {
		q.OldBefore = began
	}
	if c := s.conditions; c != nil && c.OnBase {
		if q.Base = s.over; s.alone {
			q.Own = nil // a write that was not confirmed is not part of the base
		}
	}
	return q, nil
}

// time adds the estimate of upstream's clock. It learns from the answer, too: an entry that nobody has
// changed has the time of this host's last write.
func (s *sendAttempt) time(q *fence.Question) {
	fences, d := s.f.fences, s.a.task.doubt()
	q.ByTime = fence.ByTime{BaseBefore: math.Inf(1), Unknown: d != nil && d.unknownUntil != 0}
	last, ok := fences.last(s.write.ID)
	if ok && !q.Base.Known { // the copy has made room for others
		q.Base = journal.Base{Known: true, Present: last.content.Op == journal.Put, Content: last.content, Origin: journal.Origin{Seq: last.seq}}
	}
	if origin := q.Base.Origin; ok && q.Now.Present() && last.seq == origin.Seq && origin.At == 0 {
		q.ByTime.BaseBefore = fences.offset.UpstreamTime(last.received).Most
		if q.IsBase() && q.Now.WrittenAt > origin.After {
			fences.offset.Showed(q.Now.WrittenAt, last.sent, last.received)
		}
	}
	q.ByTime.Offset = fences.offset.At(s.write.Seq) // guard 17.21
	width := q.ByTime.Offset.Most - q.ByTime.Offset.Least
	q.ByTime.MayAsk = s.requests < fenceTries && width > sharp && !math.IsInf(width, 1)
}

// outdated reports whether the fence's answer is too old, so that upstream has to be asked again. An
// exact engine notices an outdated answer by itself.
func (s *sendAttempt) outdated(now time.Time) bool {
	return s.fenced && !s.f.exact && s.requests < fenceTries && apart(now, s.asked) > fenceAge
}

// apart returns the time between two moments by the clock that shows more: the monotonic one may stand
// still while the machine is suspended.
func apart(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)).Abs())
}

// propose asks upstream to replace a version by the write. The write gets a later time than the
// version: an entry's times grow with its revisions.
func (s *sendAttempt) propose(ctx context.Context, over upstream.Version) (now upstream.Version, conflict *upstream.Conflict, failed *upstream.Error) {
	w := s.write
	// guard 18.14b
	s.f.opts.Quotas.Cover(w.Namespace) // again: the steps before may have lasted into the next window
	if s.proposals++; s.proposals == 1 {
		s.announce()
	}
	if s.proposedAt = upstream.Micros(w.UpdatedAt); over.Revision != 0 {
		s.proposedAt = max(s.proposedAt, upstream.Micros(over.WrittenAt)+1)
	}
	s.sent = time.Now()
	now, conflict, err := s.slot.swap(ctx, upstream.Proposal{
		ID: w.ID, Op: w.Op, Value: w.Value, ListBytes: w.ListBytes, WrittenAt: float64(s.proposedAt) / 1e6,
		Writer: upstream.Writer{Host: s.f.opts.Host, Seq: w.Seq}, Over: over,
	})
	s.received = time.Now()
	s.took += s.received.Sub(s.sent)
	return now, conflict, upstream.ErrorOf(err)
}

// announce calls OnSend for a pending write. It holds the lock, which a newer write needs: no superseded
// write is announced.
func (s *sendAttempt) announce() {
	if s.f.opts.OnSend == nil || s.conditions != nil {
		return
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.a.newer == 0 { // guard 13.30
		s.f.opts.OnSend(s.write)
	}
}

// yield finds the version that has won a conflict. If upstream does not name it, several hosts write the
// entry, and this one waits a moment without its slot.
func (s *sendAttempt) yield(ctx context.Context, conflict *upstream.Conflict, seen *sighting) *upstream.Error {
	s.requests = 0 // they are reported
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

// carriedOut notes when upstream has carried the write out. In front of an engine that is not exact, it
// asks for that time if the offset's estimate needs it.
func (s *sendAttempt) carriedOut(ctx context.Context, now upstream.Version) {
	fences := s.f.fences
	switch {
	case s.f.exact:
		s.is(now)
		return
	case s.conditions != nil:
		return // its number is not known yet
	}
	fences.confirmed(s.write, s.sent, s.received)
	if s.write.Op == journal.Put && fences.journal != nil && fences.offset.WantsWrite() {
		ctx, cancel := context.WithTimeout(ctx, fenceAge)
		defer cancel()
		found, err := s.slot.get(ctx, s.write.ID)
		if err == nil && found.Content() == contentOf(s.write) {
			fences.offset.Showed(found.WrittenAt, s.sent, s.received)
		}
	}
	s.write.SentAfter = fences.sentAfter(s.sent) // by what is known now
}

// is notes which version the write has become. In front of an exact engine its copy takes the version's
// times, even earlier ones, and no older version counts any more (contract 7).
func (s *sendAttempt) is(v upstream.Version) {
	if v.Revision == 0 {
		return
	}
	s.write.SentAfter = v.WrittenAt - timeTick // it is later than that
	if s.f.exact {
		s.write.UpdatedAt, s.write.CreatedAt = v.WrittenAt, v.CreatedAt
	}
}

// unasked ends an attempt that could not ask upstream: nothing of the write was sent.
func (s *sendAttempt) unasked(ctx context.Context, failed *upstream.Error) sent {
	if ctx.Err() == nil {
		s.ends(fence.Failed)
	}
	return sent{end: fence.Failed, failed: failed}
}

// ends reports the end of a pending write's fence.
func (s *sendAttempt) ends(end fence.Outcome) {
	if s.f.opts.OnFence != nil && s.conditions == nil && (s.fenced || s.f.exact) {
		s.f.opts.OnFence(end.String(), s.requests)
	}
}

// slot makes the requests about a write, one after the other in a slot of the limit.
type slot struct {
	*limit.Slot
	engine upstream.Engine
}

// hold waits for a slot. The caller releases it. A request that gets no slot before ctx ends is not sent.
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

// swap carries a write out. A conflict is an answer of upstream's, and no failure.
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
