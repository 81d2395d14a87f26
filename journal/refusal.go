package journal

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// calm is how long the journal must not refuse a write before it counts as no longer full. Without
// it, a journal that fills as fast as it is flushed would log every second.
const calm = 5 * time.Second

// fullness records since when the journal refuses writes for want of room. Maintain looks
// once a second, and so do a write that is refused and a caller that asks.
type fullness struct {
	logger *slog.Logger

	mu      sync.Mutex
	since   time.Time // zero: the journal takes writes, and has for a while
	last    time.Time // when the journal was last found full, or refused a write
	why     error     // then
	refused time.Time // when the journal last refused a write
	now     bool      // even the smallest write would be refused
}

// found takes note of what Err has found.
func (f *fullness) found(err error) {
	f.mu.Lock()
	f.now = errors.Is(err, ErrFull)
	began, over := f.turn(err)
	f.mu.Unlock()
	f.log(err, began, over)
}

// refuse takes note of the error of a write.
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

// log logs when the journal begins to refuse writes and when that is over, and holds no lock.
func (f *fullness) log(err error, began bool, over time.Duration) {
	if began {
		f.logger.Warn("the journal refuses writes until there is room; reads and flushing go on", "reason", err)
	}
	if over > 0 {
		f.logger.Info("the journal takes writes again", "after", over.Round(time.Millisecond))
	}
}

// turn notices a beginning and an end. The caller holds mu.
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

// Full returns since when, and why, the journal refuses writes for want of room; zero if it takes
// them. The journal counts as full if [Journal.Err] has last found no room for even the smallest
// write, or if the journal has refused a write, perhaps a large one, within the last seconds. A few
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
