package flush_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// conduct is a rig's behaviour during some time.
type conduct struct {
	least, most int     // concurrency
	usual       float64 // average concurrency
	answered    float64 // successful requests per second
	refused     float64 // fraction of the requests
}

// observe lets time pass and measures the concurrency. refused counts the requests that upstream has
// refused.
func (r *rig) observe(d time.Duration, refused *atomic.Int64) (c conduct) {
	r.t.Helper()
	made, was := len(r.requests(anything)), refused.Load()
	const step = 100 * time.Millisecond
	c.least = concurrency
	for range d / step {
		time.Sleep(step)
		now := r.slots.Concurrency().Now
		c.least, c.most = min(c.least, now), max(c.most, now)
		c.usual += float64(now) / float64(d/step)
	}
	made, was = len(r.requests(anything))-made, refused.Load()-was
	c.answered, c.refused = float64(made-int(was))/d.Seconds(), float64(was)/float64(made)
	return c
}

// backlog writes a number of entries in some namespaces.
func (r *rig) backlog(namespaces, entries int) {
	r.t.Helper()
	for n := range namespaces {
		r.putMany(fmt.Sprint("ns", n), entries/namespaces)
	}
}

// takes answers after a time between two others.
func takes(least, most time.Duration) func(call) reply {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	return func(call) reply {
		mu.Lock()
		defer mu.Unlock()
		return reply{after: least + time.Duration(random.Int64N(int64(most-least)))}
	}
}

// someNamespaces are the numbers of namespaces with a backlog.
var someNamespaces = []int{1, 2, 50}

// An upstream that takes 4 requests at a time and refuses others gets about that many, and all of
// concurrency once it takes all.
func TestConcurrencyIsWhatUpstreamTakes(t *testing.T) {
	const most = 4
	for _, namespaces := range someNamespaces {
		t.Run(fmt.Sprint(namespaces), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var refused atomic.Int64
				r.answer = func(call) (out reply) {
					r.set(func(f *fake) {
						if f.running > most {
							refused.Add(1)
							out = detail(503)
						}
					})
					return out
				}
				r.backlog(namespaces, 4500)
				time.Sleep(10 * time.Second)
				got := r.observe(30*time.Second, &refused)
				ideal := most / r.latency.Seconds()
				if got.usual < most-1 || got.usual > most+2 || got.refused > 0.25 || got.answered < ideal*0.6 {
					t.Errorf("%+v, want about %d, and %v requests a second", got, most, ideal)
				}
				r.set(func(f *fake) { f.answer = nil })
				r.backlog(namespaces, 4500) // with nothing to send, the window does not change
				time.Sleep(15 * time.Second)
				if c := r.slots.Concurrency(); c.Now < concurrency*3/4 {
					t.Errorf("%+v, 15 s after upstream is well", c)
				}
			})
		})
	}
}

// A slow upstream, or one with varying round trips, gets as many requests as before: fewer would not
// help.
func TestConcurrencyDoesNotFallWhereUpstreamIsSlow(t *testing.T) {
	for name, slow := range map[string]func(call) reply{
		"longer": takes(150*time.Millisecond, 151*time.Millisecond), "jittery": takes(0, 100*time.Millisecond),
	} {
		for _, namespaces := range someNamespaces {
			t.Run(fmt.Sprint(name, namespaces), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					r.set(func(f *fake) { f.answer = slow })
					r.backlog(namespaces, 2000)
					if got := r.observe(10*time.Second, new(atomic.Int64)); got.least < concurrency {
						t.Errorf("%+v, want %d", got, concurrency)
					}
				})
			})
		}
	}
}

// When all requests time out at once, there are fewer afterwards, and as many as before in a few
// seconds.
func TestConcurrencyHalvesWhenRequestsTimeOut(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.backlog(8, 7000)
		time.Sleep(3 * time.Second)
		r.set(func(f *fake) { f.answer = func(call) reply { return reply{hang: true} } })
		time.Sleep(time.Minute)
		if c := r.slots.Concurrency(); c.Now != concurrency/2-1 && c.Now != concurrency/2 || c.Reason == "" {
			t.Errorf("%+v in the storm", c)
		}
		r.set(func(f *fake) { f.answer = nil })
		time.Sleep(15 * time.Second)
		if got := r.observe(5*time.Second, new(atomic.Int64)); got.least < concurrency*3/4 || got.answered < 250 {
			t.Errorf("%+v after the storm", got)
		}
	})
}

// A 429 is about its namespace, however many namespaces get one.
func TestThrottledNamespacesAndConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.set(func(f *fake) {
			f.answer = func(c call) reply {
				if c.id.Namespace == "ns0" {
					return reply{}
				}
				return throttled("60")
			}
		})
		r.backlog(40, 400)
		if got := r.observe(2*time.Second, new(atomic.Int64)); got.least < concurrency {
			t.Errorf("%+v, want %d", got, concurrency)
		}
	})
}
