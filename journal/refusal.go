package journal

import (
	"errors"
	"log/slog"
	"sync"
	"time"
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

func (f *fullness) found(err error) {
	f.mu.Lock()
	f.now = errors.Is(err, ErrFull)
	began, over := f.turn(err)
	f.mu.Unlock()
	f.log(err, began, over)
}

func (f *fullness) refuse(err error) {
	if !errors.Is(err, ErrFull) {
		return
	}
	f.mu.Lock()
	f.refused = time.Now()
	began, over := f.turn(err)
	f.mu.Unlock()
	f.log(err, began, over)
}

// log logs when the journal begins and when it stops refusing writes. It holds no lock.
func (f *fullness) log(err error, began bool, over time.Duration) {
	if began {
		f.logger.Warn("the journal refuses writes until there is room; reads and flushing go on", "reason", err)
	}
	if over > 0 {
		f.logger.Info("the journal takes writes again", "after", over.Round(time.Millisecond))
	}
}

// turn updates the state, and reports when refusing begins or is over. The caller holds mu.
func (f *fullness) turn(err error) (began bool, over time.Duration) {
	now := time.Now()
	switch full := errors.Is(err, ErrFull); {
	case full:
		f.last, f.why = now, err
		if began = f.since.IsZero(); began {
			f.since = now
		}
	case !f.since.IsZero() && now.Sub(f.last) >= calm: // guard 3.30
		over, f.since = now.Sub(f.since), time.Time{}
	}
	return began, over
}

// Full returns when the journal began to refuse writes for lack of room, and why; zero if the journal
// takes writes. The journal counts as full if the last call of [Journal.Err] found no room for even the
// smallest write, or if a write, perhaps a large one, was refused within the last seconds. A few
// seconds with room do not reset the time.
func (j *Journal) Full() (since time.Time, why error) {
	f := j.full
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.now && time.Since(f.refused) >= calm {
		return time.Time{}, nil
	}
	return f.since, f.why
}
