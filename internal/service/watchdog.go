package service

import (
	"context"
	"time"
)

const (
	// perWatchdog is how many checks Watch makes within the time after which the manager restarts
	// the service.
	perWatchdog = 2
	// perRetry is how many times Watch could repeat a failed check within that time.
	perRetry = 8
)

// Watch calls alive at half of the time within which the manager waits for a sign of life, as long
// as check returns nil. It repeats a check that has failed sooner than that, and calls failed with the
// first error of a row. check must end with its context, which ends after a quarter of that time.
// Watch returns when ctx ends, and at once where nobody waits for signs of life.
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
		err := checkFor(ctx, within/perWatchdog/2, check)
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

func checkFor(ctx context.Context, most time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return check(ctx)
}
