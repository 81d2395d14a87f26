package memory

import (
	"log/slog"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/internal/tasks"
)

// atATime bounds the running jobs of inOrder, and so the requests upstream and the values in memory.
const atATime = 8

// inOrder runs a job for each item, some at a time, and calls take with the results in the items' order. It
// calls begin before it waits for jobs. The first error ends it.
func inOrder[T, R any](logger *slog.Logger, items []T, begin func() error, job func(*T) (R, error), take func(R) error) error {
	for some := range slices.Chunk(items, atATime) {
		if err := begin(); err != nil {
			return err
		}
		results := make([]R, len(some))
		var g errgroup.Group
		for i := range some {
			g.Go(func() error {
				return tasks.Recovered(logger, func() (err error) { results[i], err = job(&some[i]); return err })
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, result := range results {
			if err := take(result); err != nil {
				return err
			}
		}
	}
	return nil
}
