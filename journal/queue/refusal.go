package queue

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// calm is how long the journal must go without refusing a write before it counts as no longer full.
// Without it, a journal that fills as fast as it is flushed would log every second.
const calm = 5 * time.Second

// fullness records when the journal began to refuse writes for lack of room, and why. Each refused
// write and each call of Err updates it; Maintain calls Err once a second.
type fullness struct {
	logger *slog.Logger

	mu      sync.Mutex
	since   time.Time // zero: the journal has taken writes for a while
	last    time.Time // when the journal was last found full, or last refused a write
	why     error     // the reason at that time
	refused time.Time // when the journal last refused a write
	now     bool      // the last check found no room for even the smallest write
}

// found notes what a check, or a refused write, has found. It logs when refusing begins and when it is
// over, and holds no lock then.
func (f *fullness) found(err error, refusal bool) {
	full, now := errors.Is(err, ErrFull), time.Now()
	if refusal && !full {
		return
	}
	began, over := false, time.Duration(0)
	f.mu.Lock()
	if refusal {
		f.refused = now
	} else {
		f.now = full
	}
	switch {
	case full:
		f.last, f.why = now, err
		if began = f.since.IsZero(); began {
			f.since = now
		}
	case !f.since.IsZero() && now.Sub(f.last) >= calm: // guard 3.30
		over, f.since = now.Sub(f.since), time.Time{}
	}
	f.mu.Unlock()
	if began {
		f.logger.Error("the journal refuses writes until there is room; reads and flushing go on", "reason", err)
	}
	if over > 0 {
		f.logger.Info("the journal takes writes again", "after", over.Round(time.Millisecond))
	}
}

// Full returns when the journal began to refuse writes for lack of room, and why; zero if the journal
// takes writes. The journal counts as full if the last call of [Queue.Err] found no room for even the
// smallest write, or if a write, perhaps a large one, was refused within the last seconds. A few
// seconds with room do not reset the time.
func (q *Queue) Full() (since time.Time, why error) {
	f := &q.full
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.now && time.Since(f.refused) >= calm {
		return time.Time{}, nil
	}
	return f.since, f.why
}

// Err returns nil while the journal takes writes, and otherwise [store.ErrFailed], [store.ErrClosed], [ErrFull] if
// it would refuse even the smallest write, or the error of measuring the free space; see
// [Queue.Full].
func (q *Queue) Err() error {
	err := q.refuses()
	q.full.found(err, false)
	return err
}

func (q *Queue) refuses() error {
	if err := q.store.Acquire(); err != nil {
		return err
	}
	defer q.store.Release()
	if q.store.Failed() {
		return store.ErrFailed
	}
	q.store.Look()
	var err error
	q.store.InOrder(func(t record.Totals) { err = q.room(t, EntryBytes, 0) })
	return err
}
