package flush

import (
	"cmp"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/fence"
)

const (
	// mostLinger bounds how long an entry's last confirmation replaces a fence. During that time,
	// another host may write unseen.
	mostLinger = 250 * time.Millisecond
	// mostLately bounds the number of remembered writes.
	mostLately = 4096
)

// Reasons that people see in failures and in dead letters of a fence.
const (
	reasonWon       = "another host wrote it, as far as this host knows, before this host's later write, which was sent to take its place"
	reasonLost      = "another host has written later"
	reasonContended = "other hosts write the entry faster than this one gets its write in"
)

// fences decides which writes are compared with upstream before they are sent, and remembers the last
// confirmed writes. Its methods may be called concurrently.
type fences struct {
	journal *journal.Fence              // nil: there are no fences
	named   func(namespace string) bool // see [upstream.Engine]
	of      func(namespace string) bool
	linger  func(namespace string) time.Duration
	offset  *fence.Offset

	mu     sync.Mutex // guards the fields below
	upTo   uint64     // writes up to this one are fenced regardless of the settings
	since  time.Time  // when upTo was set: confirmations of writes sent before no longer count
	landed map[journal.ID]landed
	ring   []journal.ID // keys of landed in insertion order, starting at next
	next   int
}

// landed is an entry's last confirmed write.
type landed struct {
	seq            uint64
	content        journal.Content
	sent, received time.Time
	before         float64 // by upstream's clock of that time, in Unix seconds: when it was carried out at the latest
}

func newFences(opts *Options) *fences {
	return &fences{
		journal: opts.FenceJournal, named: opts.Engine.Named, of: opts.Fence, linger: opts.Linger, offset: opts.Offset,
		landed: make(map[journal.ID]landed),
	}
}

// applies reports whether a write has to be compared with upstream. If versions name no writer and only the
// settings ask for it, applies returns false for an entry that upstream has just confirmed: within its linger,
// or the usual time of a write, both bounded. A write of another host in that time is overwritten unseen.
func (s *fences) applies(w journal.Write, trip time.Duration) bool {
	if s.journal == nil {
		return false
	}
	s.mu.Lock()
	all := w.Fenced || w.Seq <= s.upTo // guard 17.26
	last, known := s.landed[w.ID]
	known = known && last.sent.After(s.since)
	s.mu.Unlock()
	switch {
	case all:
		return true
	case s.of == nil || !s.of(w.Namespace):
		return false
	case s.named(w.Namespace): // guard 23.29
		return true
	case known && apart(last.received, last.sent) > fenceAge: // it is unknown when it was carried out
		return true
	}
	lately := max(min(s.linger(w.Namespace), mostLinger), min(trip, fenceAge))
	return !known || apart(time.Now(), last.received) > lately // guard 17.25
}

// confirmed remembers a write that upstream holds. sent is zero if it is unknown which request upstream has
// carried out last. Such a write does not calibrate the offset.
func (s *fences) confirmed(w journal.Write, sent, received time.Time) {
	if s.journal == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.landed[w.ID]; !known {
		if len(s.ring) < mostLately {
			s.ring = append(s.ring, w.ID)
		} else {
			delete(s.landed, s.ring[s.next])
			s.ring[s.next] = w.ID
			s.next = (s.next + 1) % mostLately
		}
	}
	s.landed[w.ID] = landed{w.Seq, contentOf(w), sent, received, s.offset.UpstreamTime(received).Most}
}

func (s *fences) last(id journal.ID) (landed, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.landed[id]
	return last, ok && !last.received.IsZero()
}

// forget drops an entry's write, because upstream holds another host's state. Its place in the ring
// stays.
func (s *fences) forget(id journal.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.landed[id]; ok {
		s.landed[id] = landed{}
	}
}

// all fences every write up to upTo, and ignores earlier confirmations.
func (s *fences) all(upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upTo = max(s.upTo, upTo)
	s.since = time.Now()
}

// doubted reports whether a write was made before this host was last doubted (see FenceAll).
func (s *fences) doubted(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return seq <= s.upTo
}

// sentAfter returns the earliest time, by upstream's clock, at which upstream can have carried out a
// request sent at sent; 0 if unknown.
func (s *fences) sentAfter(sent time.Time) float64 {
	at := s.offset.UpstreamTime(sent).Least
	if math.IsInf(at, 0) {
		return 0
	}
	return max(0, at)
}

// guard journals a pending copy of another host's state that has just won. An unanswered request of this host
// may still land over that state; reading the copy back repairs that. The copy loses to anything later.
// Its time is the later of the state's and the losing write's: no reader may see time go back (contract
// 19).
func (s *fences) guard(j Journal, lost journal.Write, found upstream.Version) error {
	const earlier = 1 // second: the state itself counts as later, even if the clocks drift
	ahead := s.offset.At(math.MaxUint64).Most
	if math.IsInf(ahead, 1) { // the clock was just set
		ahead = found.WrittenAt - 2*earlier // so old that it loses to any state once the offset is known
	}
	at := found.WrittenAt - ahead - earlier
	if found.MadeAt != 0 { // it is known which state is later
		at = found.MadeAt
	}
	_, err := j.Append(journal.NewWrite{ // guard 19.32
		ID: lost.ID, Op: journal.Put, Value: found.Value, ListBytes: found.ListBytes, Author: found.Author,
		WrittenAt: at, At: max(found.WrittenAt, lost.UpdatedAt),
		LosesTies: true, Fenced: true, Held: true, If: func(newest uint64) bool { return newest == 0 },
	})
	if errors.Is(err, journal.ErrFull) || errors.Is(err, journal.ErrChanged) {
		return nil // no room for it, or a newer write is pending
	}
	return err
}

// keepOverwritten keeps another host's earlier state as a dead letter before w overwrites it.
func (f *Flusher) keepOverwritten(w journal.Write, v upstream.Version) (err error) {
	if v.Deleted {
		err = f.fences.journal.KeepOverwrittenDelete(w, v.WrittenAt, reasonWon)
	} else {
		err = f.fences.journal.KeepOverwritten(w, *v.Observation(), reasonWon) // guard 17.20
	}
	if err != nil {
		return err
	}
	f.opts.Logger.Warn("a write overwrites what another host has written before it: that is kept as a dead letter",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "theirs_written_at", wallOf(cmp.Or(v.MadeAt, v.WrittenAt)))
	return nil
}

func wallOf(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }

// FenceAll makes the flusher compare every write acknowledged before the call with upstream before
// sending it, regardless of flush.fence. It is for a machine or data directory that may be a copy, or
// was away, while others may have written.
func (f *Flusher) FenceAll() {
	upTo := f.opts.Journal.Stats().LastSeq
	f.fences.all(upTo) // guard 19.31
	f.opts.Logger.Info("all pending writes are compared with upstream before they are sent", slog.Uint64("up_to_seq", upTo))
}
