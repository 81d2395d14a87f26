package main

import (
	"context"
	"log/slog"
	"time"
)

// remindEvery is how often the log says that dead letters wait for a person, beside the line
// that it has for each new one: people see the end of a log.
const remindEvery = 24 * time.Hour

// remindOfDeadLetters logs when there are open dead letters: once read is closed, and from then
// on once a day.
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
