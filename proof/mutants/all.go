package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// trials sees every test of the list pass as the tree is. Rows whose tests one program
// can run share a run, and no row may take much longer than that run did.
func (l *lab) trials(ctx context.Context, list []mutant, parallel int) error {
	var trials []mutant
	for _, m := range list {
		i := slices.IndexFunc(trials, func(o mutant) bool { return o.test.runsWith(m.test) })
		if i < 0 {
			trials = append(trials, mutant{test: m.test, limit: trialTimeout})
			continue
		}
		trials[i].test.pattern += "|" + m.test.pattern
	}
	results := make([]result, len(trials))
	err := l.each(ctx, len(trials), parallel, func(ctx context.Context, dir string, i int) (err error) {
		results[i], err = l.judge(ctx, dir, &trials[i])
		return err
	})
	for i, r := range results {
		if r.failed != "" || r.broken != "" {
			err = errors.Join(err, fmt.Errorf("with nothing taken out, the tests of %s: %s\n%s", trials[i].pkg(), r, r.output))
		}
	}
	for i := range list {
		at := slices.IndexFunc(trials, func(o mutant) bool { return o.test.runsWith(list[i].test) })
		list[i].limit = min(testTimeout, 10*time.Second+5*results[at].testing)
	}
	return err
}

// all judges every row, and tells how far it is.
func (l *lab) all(ctx context.Context, list []mutant, parallel int) ([]result, error) {
	results := make([]result, len(list))
	began, done := time.Now(), new(atomic.Int64)
	err := l.each(ctx, len(list), parallel, func(ctx context.Context, dir string, i int) (err error) {
		if results[i], err = l.judge(ctx, dir, &list[i]); err != nil {
			return err
		}
		n := done.Add(1)
		left := time.Since(began) / time.Duration(n) * time.Duration(int64(len(list))-n)
		fmt.Fprintf(os.Stderr, "%3d of %d, %s left: %s: %s (%.1fs)\n", n, len(list), round(left),
			&list[i], results[i], (results[i].building + results[i].testing).Seconds())
		return nil
	})
	return results, err
}

// each does n jobs in order, some at a time. Jobs of the same directory follow each other.
func (l *lab) each(ctx context.Context, n, parallel int, do func(ctx context.Context, dir string, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	next := new(atomic.Int64)
	for worker := range parallel {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, fmt.Sprint(worker), i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
