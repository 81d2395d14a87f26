package memory

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/internal/tasks"
)

// atATime is how many jobs of inOrder are under way, or wait to be taken: it bounds the requests
// upstream and the values in memory.
const atATime = 8

// inOrder does jobs, some at a time, and calls take with their results in the order of the jobs.
// produce adds the jobs one after the other. wait is called before take has to wait for a
// result. The first error ends all.
func inOrder[T any](
	ctx context.Context, logger *slog.Logger,
	produce func(ctx context.Context, add func(job func() (T, error)) error) error, wait func() error, take func(T) error,
) error {
	g, ctx := errgroup.WithContext(ctx)
	coming := make(chan chan T, atATime)
	add := func(job func() (T, error)) error {
		one := make(chan T, 1)
		select {
		case coming <- one:
		case <-ctx.Done():
			return ctx.Err()
		}
		g.Go(func() error {
			return tasks.Recovered(logger, func() error {
				result, err := job()
				if err == nil {
					one <- result
				}
				return err
			})
		})
		return nil
	}
	g.Go(func() error {
		defer close(coming)
		return tasks.Recovered(logger, func() error { return produce(ctx, add) })
	})
	g.Go(func() error {
		return tasks.Recovered(logger, func() error {
			for one := range coming {
				result, err := await(ctx, one, wait)
				if err == nil {
					err = take(result)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	return g.Wait()
}

func await[T any](ctx context.Context, one <-chan T, wait func() error) (result T, err error) {
	select {
	case result = <-one:
		return result, nil
	default:
	}
	if err := wait(); err != nil {
		return result, err
	}
	select {
	case result = <-one:
		return result, nil
	case <-ctx.Done():
		return result, ctx.Err()
	}
}
