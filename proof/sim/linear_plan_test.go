package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// plan holds all that a seed decides.
type plan struct {
	settings
	seed    uint64
	virtual bool
	fair    bool // upstream is reachable all the time
	others  bool // another host writes, too
	loses   bool // upstream loses what the daemon has written
	callers int
	calls   int // of each caller
	latency time.Duration
}

func (p plan) String() string {
	return fmt.Sprintf("seed %d: %d callers, fair %t, others %t, loses %t, through %t, lists %t, sealed %t, fresh for %s, cache %d, linger %s",
		p.seed, p.callers, p.fair, p.others, p.loses, p.through, p.lists, p.keys != nil, p.policy.FreshFor, p.memory, p.linger)
}

// leastPatience is the shortest that upstream's Reader has.
const leastPatience = 250 * time.Millisecond

// newPlan draws a plan. In virtual time a life has the default times, except those of
// the cache, which are short beside a caller's pauses. In real time all times are as
// short as possible.
func newPlan(seed uint64, virtual bool) plan {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := plan{settings: usual, seed: seed, virtual: virtual, fair: rng.IntN(3) == 0}
	p.memory = []int64{16 << 10, 1 << 20}[rng.IntN(2)]
	p.policy = cache.Policy{StaleIfError: cache.Forever}
	long := rng.IntN(4) == 0 // answers stay fresh until a write here
	p.lists = rng.IntN(2) == 0
	if seed%4 == 1 {
		seals(&p.settings)
	}
	p.through = seed%3 == 2 && (virtual || p.fair) // the checker cannot bear many outcomes that nobody knows
	if !p.through {
		p.others, p.loses = rng.IntN(2) == 0, rng.IntN(3) == 0
	}
	if p.loses {
		p.losses = journal.LossLimit{Entries: 1} // any absence is disbelieved
	}
	if virtual {
		p.callers, p.calls, p.latency = 2+rng.IntN(6), 40, 50*time.Millisecond
		p.linger = []time.Duration{0, linger}[rng.IntN(2)]
		p.policy.FreshFor = []time.Duration{0, 100 * time.Millisecond}[rng.IntN(2)]
		p.policy.StaleWhileRevalidate = []time.Duration{0, time.Second}[rng.IntN(2)]
		p.policy.AbsentFor = 100 * time.Millisecond
		if long {
			p.policy.FreshFor, p.policy.AbsentFor = cache.Forever, cache.Forever
		}
		if p.fair {
			p.patience = time.Minute // longer than upstream is ever slow
		}
		return p
	}
	p.callers, p.calls = 4+rng.IntN(5), 150
	p.linger = []time.Duration{0, time.Millisecond}[rng.IntN(2)]
	// Within the window, the service must notice that a request was given up, also on a busy machine.
	p.lateWindow, p.patience = 10*time.Millisecond, leastPatience
	p.backoffInitial, p.backoffMax = 100*time.Microsecond, time.Millisecond
	p.policy.FreshFor = []time.Duration{0, time.Millisecond}[rng.IntN(2)]
	p.policy.StaleWhileRevalidate = []time.Duration{0, time.Millisecond}[rng.IntN(2)]
	p.policy.AbsentFor = []time.Duration{0, time.Millisecond}[rng.IntN(2)]
	if long {
		p.policy.FreshFor, p.policy.AbsentFor = cache.Forever, cache.Forever
	}
	return p
}

// life draws the n-th life: when it ends, and how.
func (p plan) life(n int) *life {
	seed := p.seed<<8 | uint64(n)
	rng := rand.New(rand.NewPCG(seed, 2))
	l := &life{seed: seed, virtual: p.virtual, kept: []int{0, 50, 100}[rng.IntN(3)]}
	about := int64(p.callers * p.calls / 4)
	switch rng.IntN(5) {
	case 0:
		l.restartAt = 1 + rng.Int64N(about)
	case 1:
		l.crashAtCall = 1 + rng.Int64N(about)
	case 2:
		l.crashAtWrite = 1 + rng.Int64N(about/2)
	default:
		l.crashAtSync = 1 + rng.Int64N(about/2)
	}
	return l
}

// tardy delays some answers of upstream for long.
func (p plan) tardy(up *service) func() {
	return func() {
		switch {
		case p.virtual && rand.IntN(4) == 0:
			up.sleep(rand.N(2 * time.Second))
		case !p.virtual:
			pause(false, rand.IntN(20))
		}
	}
}

// weather draws a fault of upstream. Some faults make callers wait for long: only
// virtual time has room for them.
func (p plan) weather(rng *rand.Rand) fault {
	switch {
	case p.fair && p.virtual:
		return []fault{healthy, healthy, slow}[rng.IntN(3)]
	case p.fair:
		return healthy
	case p.virtual:
		f := fault(max(0, rng.IntN(2*int(faults))-int(faults))) // healthy half of the time
		if f == refusing {
			return gateway // a write that BotWire itself refuses is taken back
		}
		return f
	}
	return []fault{healthy, healthy, healthy, down, broken, deaf, captive}[rng.IntN(7)]
}

// thinks returns how long a caller waits before its next call, in virtual time.
var thinks = []time.Duration{
	0, 0, 0, time.Millisecond, time.Millisecond, 2 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond,
	60 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second,
}
