package service

import (
	"context"
	"time"
)

const (
	// perWatchdog is how many checks Watch makes within the watchdog timeout.
	perWatchdog = 2
	// perRetry is how many retries of a failed check fit in the watchdog timeout.
	perRetry = 8
)

// Watch calls alive at once. Then it calls check twice within the watchdog timeout, and alive each time
// that check returns nil. It retries a failed check sooner, and calls failed with the first error in a
// row. check must end with its context, which ends after a quarter of the timeout. Watch returns when
// ctx ends, or at once if there is no timeout.
func Watch(ctx context.Context, within time.Duration, check func(context.Context) error, alive func(), failed func(error)) {
	if within <= 0 {
		return
	}
	alive()
	dead := false
	timer := time.NewTimer(within / perWatchdog)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, within/perWatchdog/2)
		err := check(bounded)
		cancel()
		pause := within/perWatchdog - time.Since(began)
		switch {
		case err == nil:
			alive()
			dead = false
		case ctx.Err() == nil:
			pause = within / perRetry
			if !dead {
				failed(err)
			}
			dead = true
		}
		timer.Reset(max(pause, 0))
	}
}
