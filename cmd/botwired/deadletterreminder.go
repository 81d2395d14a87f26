package main

import (
	"context"
	"log/slog"
	"time"
)

// remindEvery is how often the log repeats that dead letters need a decision. Each new one is also
// logged once, but people look at the end of a log.
const remindEvery = 24 * time.Hour

// remindOfDeadLetters logs a warning if there are open dead letters: once when read is closed, then
// once a day.
func remindOfDeadLetters(ctx context.Context, read <-chan struct{}, open func() int, logger *slog.Logger) error {
	select {
	case <-read:
	case <-ctx.Done():
		return nil
	}
	ticker := time.NewTicker(remindEvery)
	defer ticker.Stop()
	for {
		if n := open(); n > 0 {
			logger.Warn(`upstream has refused writes for good, and they wait for your decision: "botwired dead-letters" lists them, "botwired dead-letters retry" or "delete" decides`,
				"open_dead_letters", n)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}
