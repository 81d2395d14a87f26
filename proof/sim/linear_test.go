package sim

import (
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/errgroup"
)

var (
	linearRounds = flag.Int("linear.rounds", 60, "how many histories are checked in virtual time; in real time it is a third, under the race detector a twelfth")
	linearSeed   = flag.Uint64("linear.seed", 0, "the first of them")
)

// In virtual time there is time for everything: outages, late windows, late answers, writes
// that settle, copies that grow stale, callers who wait for a sync.
func TestLinearVirtual(t *testing.T) {
	rounds(t, (*linearRounds+fewer-1)/fewer, 1, true, func(c func()) { synctest.Test(t, func(*testing.T) { c() }) })
}

// In real time everything happens at once, as far as there are processors. A history waits most of the time.
func TestLinearParallel(t *testing.T) {
	some := 3 * min(fewer, 4)
	rounds(t, (*linearRounds+some-1)/some, 4*runtime.GOMAXPROCS(0), false, func(c func()) { c() })
}

// rounds checks the histories of so many seeds, some at a time, until one is wrong.
func rounds(t *testing.T, count, together int, virtual bool, in func(func())) {
	var done, operations, lives atomic.Int64
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(together)
	for i := 0; i < count && ctx.Err() == nil; i++ {
		g.Go(func() error {
			p := newPlan(*linearSeed+uint64(i), virtual)
			c, err := round(p, in)
			known, away := c.history.known()
			operations.Add(int64(len(known)))
			lives.Add(int64(c.lived))
			if n := done.Add(1); n%100 == 0 {
				t.Logf("%d of %d histories", n, count)
			}
			switch wrong := check(known); {
			case err != nil:
				return fmt.Errorf("%s: %w", p, err)
			case len(c.odd) > 0:
				return fmt.Errorf("%s: %s", p, c.odd[0])
			case len(away) > 0:
				return fmt.Errorf("%s: contract 9: upstream could be asked, and these were turned away:\n%s", p, excerpt(away))
			case wrong != "":
				return fmt.Errorf("%s: %s", p, wrong)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d histories, %d operations, %d lives", count, operations.Load(), lives.Load())
}

func round(p plan, in func(func())) (c *crowd, err error) {
	in(func() {
		if c, err = newCrowd(p); err == nil {
			err = c.run()
		}
	})
	return c, err
}
