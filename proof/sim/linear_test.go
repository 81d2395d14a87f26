package sim

import (
	"flag"
	"testing"
	"testing/synctest"
)

var (
	linearRounds = flag.Int("linear.rounds", 60, "how many histories are checked in virtual time; in real time it is a third, under the race detector a twelfth")
	linearSeed   = flag.Uint64("linear.seed", 0, "the first of them")
)

// In virtual time there is time for everything: outages, late windows, late answers, writes
// that settle, copies that grow stale, callers who wait for a sync.
func TestLinearVirtual(t *testing.T) {
	rounds(t, (*linearRounds+fewer-1)/fewer, true, func(c func()) { synctest.Test(t, func(*testing.T) { c() }) })
}

// In real time everything happens at once, as far as there are processors.
func TestLinearParallel(t *testing.T) {
	some := 3 * min(fewer, 4)
	rounds(t, (*linearRounds+some-1)/some, false, func(c func()) { c() })
}

func rounds(t *testing.T, count int, virtual bool, in func(func())) {
	operations, lives := 0, 0
	for i := range count {
		p := newPlan(*linearSeed+uint64(i), virtual)
		c, err := round(p, in)
		known, away := c.history.known()
		operations += len(known)
		lives += c.lived
		switch wrong := check(known); {
		case err != nil:
			t.Fatalf("%s: %v", p, err)
		case len(c.odd) > 0:
			t.Fatalf("%s: %s", p, c.odd[0])
		case len(away) > 0:
			t.Fatalf("%s: contract 9: upstream could be asked, and these were turned away:\n%s", p, excerpt(away))
		case wrong != "":
			t.Fatalf("%s: %s", p, wrong)
		}
	}
	t.Logf("%d histories, %d operations, %d lives", count, operations, lives)
}

func round(p plan, in func(func())) (c *crowd, err error) {
	in(func() {
		if c, err = newCrowd(p); err == nil {
			err = c.run()
		}
	})
	return c, err
}
