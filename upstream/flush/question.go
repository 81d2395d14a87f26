package flush

import (
	"math"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/fence"
)

// question gathers all that the fence has to know.
func (a *attempt) question(seen sighting) (*fence.Question, error) {
	fences, w := a.f.fences, a.write
	q := &fence.Question{
		Write: w, Now: seen.Version, Valued: seen.valued, Refused: seen.refused,
		OldBefore: math.Inf(-1), OnBase: w.Over != nil,
	}
	left, known, err := a.f.opts.Journal.Left(w)
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
	began := upstream.Unix(a.f.epoch)
	old := min(w.WrittenAt, w.Since) >= began // guard 17.63
	if a.named() {
		q.Exactly = &fence.Exactly{Host: a.f.opts.Host, Tombstones: a.f.exact}
		if !a.f.exact { // versions name a time beside upstream's own
			q.Now.WrittenAt, q.Write.UpdatedAt = q.Now.MadeAt, madeAt(w, q.Base)
			q.Base.UpdatedAt, q.Base.Origin.At = q.Base.MadeAt, 0
		}
		if by := q.Now.Writer; by.Host == a.f.opts.Host && by.Seq < w.Seq && fences.journal != nil {
			if err := a.recognise(q, by.Seq); err != nil {
				return nil, err
			}
		}
	} else {
		ahead := fence.Ahead(seen.Date, a.heard, a.heard.Sub(a.asked))
		q.ByTime.WrittenAt = a.writtenAt(ahead)
		began = a.f.steps.now(began, 0, ahead) - fence.Unsure
		if err := a.remember(q); err != nil {
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
func (a *attempt) recognise(q *fence.Question, seq uint64) (err error) {
	id, kept := a.write.ID, a.f.fences.journal
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
func (a *attempt) named() bool { return a.f.opts.Engine.Named(a.write.Namespace) }

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
func (a *attempt) writtenAt(ahead float64) float64 {
	if a.write.LosesTies {
		return a.write.WrittenAt
	}
	return a.f.steps.now(a.write.WrittenAt, a.write.Seq, ahead)
}

// remember adds to the question what this host remembers of its own requests.
func (a *attempt) remember(q *fence.Question) error {
	fences := a.f.fences
	q.ByTime.BaseBefore = math.Inf(1)
	last, ok := fences.last(a.write.ID)
	switch {
	case q.Base.Known:
	case ok: // the copy was evicted
		q.ByTime.Evicted = true
		q.Base = journal.Base{Known: true, Listed: q.Base.Listed, Present: last.content.Op == journal.Put, Content: last.content, Origin: journal.Origin{Seq: last.seq}}
	case fences.journal != nil && q.Now.Present(): // an earlier process's write may have left it
		base, left, err := fences.journal.Remembered(a.write.ID)
		if err != nil {
			return err
		}
		q.ByTime.Evicted = true
		base.Listed = q.Base.Listed
		q.Base, q.Own = base, append(q.Own, left...) // guard 17.51
	}
	if ok && last.seq == q.Base.Origin.Seq && q.Base.Origin.At == 0 {
		q.ByTime.BaseBefore = last.before // guard 17.53
	}
	return nil
}
