package store

import (
	"fmt"
	"sync"
	"time"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store/diskfs"
)

// markEvery bounds how old the mark may be, and so which writes a log that was cut
// off after an unclean end can lose without notice.
const markEvery = time.Second

// marker writes the mark.
type marker struct {
	mu    sync.Mutex // one mark at a time
	last  Mark
	timer *time.Timer // guarded by order; nil while nothing is to be marked
	// running is closed when the mark that is being written is; ended says that there
	// are to be no more. Both are guarded by order.
	running chan struct{}
	ended   bool
}

// markSoon has a batch marked within markEvery. The caller holds order.
func (s *Store) markSoon() {
	if s.marker.timer == nil && !s.marker.ended {
		s.marker.timer = time.AfterFunc(markEvery, s.MarkNow)
	}
}

// MarkNow makes all that was applied so far durable, which costs writers nothing, and
// then marks it. It happens by itself, markEvery after a batch.
func (s *Store) MarkNow() {
	if s.Acquire() != nil {
		return
	}
	defer s.Release()
	var now record.Totals
	done := make(chan struct{})
	defer close(done)
	err := s.Update(ChangeFunc(func(tx *Tx) error {
		if s.marker.ended {
			return ErrClosed
		}
		s.marker.timer, s.marker.running = nil, done
		now = tx.Totals()
		tx.Sync()
		return nil
	}))
	if err != nil {
		return // it is the end of the store
	}
	if err = s.keepMark(now); err == nil {
		return
	}
	if !diskfs.IsFull(err) {
		s.fail(err)
		return
	}
	s.opts.Logger.Error("the high-water mark could not be written", "error", OneLine(err))
	s.order.Lock()
	defer s.order.Unlock()
	s.markSoon()
}

// endMarks waits for the mark that is being written, and has the timer write no more.
func (s *Store) endMarks() {
	s.order.Lock()
	s.marker.ended = true
	if s.marker.timer != nil {
		s.marker.timer.Stop()
	}
	running := s.marker.running
	s.order.Unlock()
	if running != nil {
		<-running
	}
}

// keepMark marks a state of the store that is durable. The mark never goes back.
func (s *Store) keepMark(t record.Totals) error {
	m := &s.marker
	m.mu.Lock()
	defer m.mu.Unlock()
	next := Mark{Round: m.last.Round + 1, Seq: max(t.Seq, m.last.Seq), Batches: max(t.Batches, m.last.Batches)}
	var err error
	if next.manifestMark, err = m.last.next(s.opts.FS, s.opts.Dir); err != nil {
		return err
	}
	same := next
	if same.Round = m.last.Round; same == m.last {
		return nil
	}
	if err := writeMark(s.opts.FS, s.opts.Dir, &next); err != nil {
		return fmt.Errorf("file %s: %w", MarkFile, err)
	}
	m.last = next
	return nil
}
