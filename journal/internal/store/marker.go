package store

import (
	"fmt"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

// markEvery bounds the age of the mark, and so which writes can go missing unnoticed if a log is cut
// off after an unclean end.
const markEvery = time.Second

// marker writes the mark.
type marker struct {
	store *Store
	mu    sync.Mutex // one mark at a time
	last  Mark
	timer *time.Timer // guarded by order; nil while no mark is due
	// running is closed when the mark in progress is written. ended says that no more marks follow.
	// order guards both.
	running chan struct{}
	ended   bool
}

// soon schedules a mark within markEvery. The caller holds order.
func (m *marker) soon() {
	if m.timer == nil && !m.ended {
		m.timer = time.AfterFunc(markEvery, m.mark)
	}
}

// mark makes all applied changes durable, which costs writers nothing, and then writes the mark. The
// timer calls it, markEvery after a batch.
func (m *marker) mark() {
	if m.store.Acquire() != nil {
		return
	}
	defer m.store.Release()
	var now record.Totals
	done := make(chan struct{})
	defer close(done)
	err := m.store.Update(ChangeFunc(func(tx *Tx) error { // guard 4.27
		if m.ended {
			return ErrClosed
		}
		m.timer, m.running = nil, done
		now = tx.Totals()
		tx.Sync()
		return nil
	}))
	if err != nil {
		return // the store has ended
	}
	if err = m.keep(now); err == nil {
		return
	}
	if !diskfs.IsFull(err) {
		m.store.fail(err)
		return
	}
	m.store.opts.Logger.Error("the high-water mark could not be written", "error", OneLine(err))
	m.store.order.Lock()
	defer m.store.order.Unlock()
	m.soon()
}

// end stops the timer, and waits for the mark in progress.
func (m *marker) end() {
	m.store.order.Lock()
	m.ended = true
	if m.timer != nil {
		m.timer.Stop()
	}
	running := m.running
	m.store.order.Unlock()
	if running != nil {
		<-running
	}
}

// keep writes a mark for a durable state of the store. The mark never goes back.
func (m *marker) keep(t record.Totals) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := Mark{Round: m.last.Round + 1, Seq: max(t.Seq, m.last.Seq), Batches: max(t.Batches, m.last.Batches)}
	var err error
	if next.manifestMark, err = m.last.next(m.store.opts.FS, m.store.opts.Dir); err != nil {
		return err
	}
	same := next
	if same.Round = m.last.Round; same == m.last {
		return nil
	}
	if err := writeMark(m.store.opts.FS, m.store.opts.Dir, &next); err != nil {
		return fmt.Errorf("file %s: %w", MarkFile, err)
	}
	m.last = next
	return nil
}
