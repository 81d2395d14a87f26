package flush

import (
	"cmp"
	"sync"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

const (
	// lately is how long the flusher does not look at an entry again after it has sent a write. If another host
	// writes the entry in that time, the next write overwrites that unseen.
	lately = 250 * time.Millisecond
	// mostLately bounds the number of remembered writes.
	mostLately = 4096
)

// Reasons that people see in failures and in receipts.
const (
	reasonLost      = "another host has written later"
	reasonContended = "other hosts write the entry faster than this one gets its write in"
)

// fences decides which writes are compared with upstream before they are sent, and remembers the last
// confirmed writes. Its methods may be called concurrently.
type fences struct {
	journal *journal.Fence              // nil: there are no fences
	named   func(namespace string) bool // see [upstream.Engine]

	mu     sync.Mutex // guards the fields below
	landed map[journal.ID]landed
	ring   []journal.ID // keys of landed in insertion order, starting at next
	next   int
}

// landed is an entry's last confirmed write.
type landed struct {
	seq     uint64
	content journal.Content
	sent    time.Time // zero if it is unknown which request upstream has carried out last
	before  float64   // by upstream's clock, in Unix seconds: when it was carried out at the latest
}

func newFences(opts *Options) *fences {
	return &fences{journal: opts.FenceJournal, named: opts.Engine.Named, landed: make(map[journal.ID]landed)}
}

// applies reports whether a write has to be compared with upstream. If versions name no writer, one to an
// entry whose last write was sent, and confirmed, just now need not be.
func (s *fences) applies(w journal.Write) bool {
	if s.journal == nil {
		return false
	}
	last, known := s.last(w.ID)
	return w.Fenced || s.named(w.Namespace) || !known || apart(time.Now(), last.sent) > lately // guard 17.25, 17.26, 23.29
}

func contentOf(w journal.Write) journal.Content { return journal.ContentOf(w.Op, w.Value) }

// confirmed remembers a write that upstream holds.
func (s *fences) confirmed(w journal.Write, sent time.Time, before float64) {
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
	s.landed[w.ID] = landed{w.Seq, contentOf(w), sent, before}
}

func (s *fences) last(id journal.ID) (landed, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.landed[id]
	return last, last.seq != 0
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

// keepOverwritten keeps another host's earlier state as a version that is lost before w overwrites it.
func (f *Flusher) keepOverwritten(w journal.Write, v upstream.Version) (err error) {
	if v.Deleted {
		err = f.fences.journal.KeepOverwrittenDelete(w.ID, v.WrittenAt)
	} else {
		err = f.fences.journal.KeepOverwritten(w.ID, *v.Observation()) // guard 17.20
	}
	if err != nil {
		return err
	}
	f.opts.Logger.Warn("a write overwrites what another host has written before it: that is kept in the entry's history, as lost",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "theirs_written_at", wallOf(cmp.Or(v.MadeAt, v.WrittenAt)))
	return nil
}

func wallOf(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }
