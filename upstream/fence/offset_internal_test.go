package fence

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/botwired/botwired/upstream"
)

// clocks are a host's two clocks and upstream's. The test lets time pass. All are in seconds.
type clocks struct {
	*Offset
	t         *testing.T
	now       float64 // true time
	wall      float64 // minus true time
	mono      float64 // how long the machine was suspended
	up        float64 // minus true time
	hostDrift float64
	upDrift   float64
	lag       float64 // how often upstream makes its Date
}

func newClocks(t *testing.T, wall, up float64) *clocks {
	c := &clocks{t: t, now: 1.7e9, wall: wall, up: up}
	c.Offset = newOffset(c.moment())
	return c
}

func (c *clocks) moment() moment {
	passed := c.now - 1.7e9
	return moment{wall: c.now + c.wall + passed*c.hostDrift, mono: passed*(1+c.hostDrift) - c.mono}
}

func (c *clocks) upstream() float64 { return c.now + c.up + (c.now-1.7e9)*c.upDrift }

// ask makes a request. Upstream makes its answer after there seconds, and it arrives after back more.
func (c *clocks) ask(there, back float64) {
	sent := c.moment()
	c.now += there
	date := c.upstream()
	if c.lag > 0 {
		date = math.Floor(date/c.lag) * c.lag
	}
	c.now += back
	c.answered(time.Unix(int64(math.Floor(date)), 0), sent, c.moment())
}

// write makes a write that upstream shows later.
func (c *clocks) write(there, back, shown float64) {
	sent := c.moment()
	c.now += there
	at := c.upstream()
	c.now += back
	received := c.moment()
	c.now += shown
	c.showed(at, sent, received, c.moment())
}

// want checks that the estimate contains the true offset, and is no wider than widest.
func (c *clocks) want(widest float64) {
	c.t.Helper()
	c.wantAt(math.MaxUint64, c.upstream()-c.moment().wall, widest)
}

func (c *clocks) wantAt(seq uint64, truth, widest float64) {
	c.t.Helper()
	const rounding = 2e-6
	s := c.atOf(seq, c.moment())
	if truth < s.Least-rounding || truth > s.Most+rounding || s.Most-s.Least > widest+rounding {
		c.t.Errorf("the offset is %.6f, and the estimate %.6f to %.6f, at most %.6f wide", truth, s.Least, s.Most, widest)
	}
}

func TestOffsetKnowsNothingAtFirst(t *testing.T) {
	c := newClocks(t, 0, 0)
	c.want(math.Inf(1))
	c.answered(time.Time{}, c.moment(), c.moment())
	c.want(math.Inf(1))
}

// One answer gives the resolution of Date; more narrow the estimate to the round trip and the rest of
// dateTick.
func TestOffsetNarrowsWithAnswers(t *testing.T) {
	for _, up := range []float64{0, 5, -5, 3600, -1e6, 0.3, -0.7} {
		for _, lag := range []float64{0, 1} {
			c := newClocks(t, 0, up)
			c.lag = lag
			c.ask(0.025, 0.025)
			c.want(dateTick + 0.05)
			for range 40 {
				c.now += 0.337
				c.ask(0.025, 0.025)
			}
			c.want(1.5)
		}
	}
}

// The time of this host's own write bounds the offset to its round trip.
func TestOffsetByAWrite(t *testing.T) {
	c := newClocks(t, 0, 5.4)
	c.ask(0.025, 0.025)
	c.write(0.01, 0.04, 0.1)
	c.want(0.051)
	c.now += 3600
	c.want(0.051 + 2*3601*drift)
	c.write(0.2, 0.2, 0)
	c.want(0.41)
}

// With any round trips, and the drift and the Dates within their bounds, the estimate contains the true
// offset.
func TestOffsetHoldsTheTruth(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newClocks(t, 20*r.Float64()-10, 20*r.Float64()-10)
		c.hostDrift, c.upDrift = (r.Float64()-0.5)*drift, (r.Float64()-0.5)*drift
		c.lag = []float64{0, 0.1, 1, 1.2}[r.IntN(4)]
		for range 100 {
			c.now += math.Exp(12*r.Float64() - 5)
			switch r.IntN(3) {
			case 0:
				c.write(r.ExpFloat64()/10, r.ExpFloat64()/10, r.ExpFloat64()*60)
			default:
				c.ask(r.ExpFloat64()/10, r.ExpFloat64()/10)
			}
			c.want(math.Inf(1))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// After the host's clock was set, the next answer counts, and an earlier write keeps the offset of its
// time.
func TestOffsetAfterTheClockWasSet(t *testing.T) {
	for _, step := range []float64{3600, -3600, 0.5, -0.5, 0.02, 40 * 86400} {
		c := newClocks(t, 0, 2)
		c.wroteAt(6, c.moment())
		c.write(0.025, 0.025, 0)
		c.now += 5
		c.ask(0.025, 0.025)
		c.wroteAt(7, c.moment())
		c.now += 1
		c.wall += step
		c.now += 1
		c.wroteAt(8, c.moment())
		c.want(math.Inf(1))
		c.write(0.025, 0.025, 0)
		c.want(0.051)
		c.now += 100
		c.want(0.1)
		c.wantAt(8, 2-step, 0.1)
		for _, before := range []uint64{1, 6, 7} {
			c.wantAt(before, 2, 0.06)
		}
	}
}

// A suspension sets the monotonic clock back, relative to the wall clock. The previous estimate then
// applies to the earlier writes.
func TestOffsetAfterASuspension(t *testing.T) {
	c := newClocks(t, 0, 2)
	c.write(0.025, 0.025, 0)
	c.wroteAt(3, c.moment())
	c.now += 20
	c.mono += 20
	c.want(math.Inf(1))
	c.wantAt(3, 2, 0.06)
	c.ask(0.025, 0.025)
	c.want(dateTick + 0.051)
}

// Upstream's clock at an earlier moment is bounded even after the host's clock was set, or the machine
// suspended: a write of that moment is not taken for another host's later one.
func TestUpstreamsTimeOfAMomentBefore(t *testing.T) {
	for name, happens := range map[string]func(*clocks){
		"the clock was set forward":  func(c *clocks) { c.wall += 1.5 },
		"the clock was set back":     func(c *clocks) { c.wall -= 1.5 },
		"the machine was suspended":  func(c *clocks) { c.now += 3600; c.mono += 3600 },
		"nothing has happened since": func(*clocks) {},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClocks(t, 0, 5)
			c.write(0.01, 0.01, 0)
			past, truth := c.moment(), c.upstream()
			c.now++
			happens(c)
			c.ask(0.01, 0.01)
			c.write(0.01, 0.01, 0)
			if s := c.upstreamAt(past); s.Least > truth || s.Most < truth {
				t.Errorf("it was %f, not between %f and %f", truth, s.Least, s.Most)
			}
		})
	}
}

// If the clock is set during a request, the answer says nothing.
func TestOffsetOfARequestDuringWhichTheClockWasSet(t *testing.T) {
	c := newClocks(t, 0, 2)
	sent := c.moment()
	c.now += 0.025
	date := time.Unix(int64(c.upstream()), 0)
	c.wall += 100
	c.answered(date, sent, c.moment())
	c.want(math.Inf(1))
	if s := c.atOf(math.MaxUint64, c.moment()); !math.IsInf(s.Most, 1) {
		t.Errorf("it says %v", s)
	}
}

// After upstream's clock was set, the answers since then count.
func TestOffsetAfterUpstreamsClockWasSet(t *testing.T) {
	for _, step := range []float64{10, -10, 1e5, -1e5} {
		c := newClocks(t, 0, 0)
		c.write(0.025, 0.025, 0)
		for range 10 {
			c.now += 0.7
			c.ask(0.025, 0.025)
		}
		c.up += step
		c.ask(0.025, 0.025)
		c.want(dateTick + 0.051)
		c.write(0.025, 0.025, 0)
		c.want(0.051)
	}
}

// A wrong Date counts only until the next correct answer. If another clock makes all Dates, the times
// of the writes count.
func TestOffsetOfADateThatLies(t *testing.T) {
	c := newClocks(t, 0, 0)
	for range 10 {
		c.now += 0.7
		c.ask(0.025, 0.025)
	}
	for _, lie := range []float64{-3600, 90, 1e9} {
		c.answered(time.Unix(int64(c.upstream()+lie), 0), c.moment(), c.moment())
		if s := c.atOf(math.MaxUint64, c.moment()); s.Least < lie-dateTick || s.Most > lie+dateTick {
			t.Errorf("a Date that is wrong by %v makes the estimate %v", lie, s)
		}
		c.ask(0.025, 0.025)
		c.want(dateTick + 0.051)
	}
	for range 5 { // a front end with its own clock
		c.now += 1
		c.answered(time.Unix(int64(c.upstream()+77), 0), c.moment(), c.moment())
	}
	c.write(0.025, 0.025, 0)
	c.want(0.051)
	c.now += 1
	c.answered(time.Unix(int64(c.upstream()+77), 0), c.moment(), c.moment())
	c.want(0.06)
}

// The number of remembered eras is bounded.
func TestOffsetRemembersSomeEras(t *testing.T) {
	c := newClocks(t, 0, 0)
	for range 3 * mostEras {
		c.ask(0.025, 0.025)
		c.now += 10
		c.wall += 1000
		c.want(math.Inf(1))
	}
	if len(c.eras) != mostEras {
		t.Errorf("it remembers %d eras, want %d", len(c.eras), mostEras)
	}
}

// The exported methods read the real clocks.
func TestOffsetOfRealTimes(t *testing.T) {
	o := NewOffset()
	sent := time.Now()
	received := sent.Add(50 * time.Millisecond)
	o.Showed(upstream.Unix(sent)+7.02, sent, received)
	if s := o.At(1); s.Least > 7 || s.Most < 7 || s.Most-s.Least > 0.1 {
		t.Errorf("it says %v", s)
	}
	if o.WantsWrite() {
		t.Error("it wants another write")
	}
	if s := o.UpstreamTime(sent); s.Least > upstream.Unix(sent)+7 || s.Most < upstream.Unix(sent)+7 {
		t.Errorf("upstream's clock is within %v", s)
	}
}
