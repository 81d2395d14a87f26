package upstream_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// conduct is what a rig has done for a while.
type conduct struct {
	least, most int     // concurrency
	usual       float64 // likewise, on average
	answered    float64 // requests a second that went well
	refused     float64 // share of the requests
}

// observe lets time pass and looks at the concurrency. refused counts the requests that
// upstream has refused.
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

// someNamespaces are how many namespaces have a backlog.
var someNamespaces = []int{1, 2, 50}

// An upstream that takes 4 requests at a time, and refuses others, gets about as many, and
// all of concurrency once it takes all.
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
				r.backlog(namespaces, 4500) // with nothing to send, the window remains as it is
				time.Sleep(15 * time.Second)
				if c := r.slots.Concurrency(); c.Now < concurrency*3/4 {
					t.Errorf("%+v, 15 s after upstream is well", c)
				}
			})
		})
	}
}

// An upstream that carries out 8 requests at a time, and lets others wait in line, gets about
// as many as it carries out, and no fewer.
func TestConcurrencyFallsWhereRequestsQueue(t *testing.T) {
	const servers, each = 8, 50 * time.Millisecond
	for _, namespaces := range someNamespaces {
		t.Run(fmt.Sprint(namespaces), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				free := make(chan struct{}, servers)
				r.set(func(f *fake) { f.latency = 0 })
				service := takes(each/2, each*3/2) // were they all alike, the requests would go in lockstep
				r.answer = func(c call) reply {
					free <- struct{}{}
					time.Sleep(service(c).after)
					<-free
					return reply{}
				}
				r.backlog(namespaces, 4500)
				time.Sleep(5 * time.Second)
				got := r.observe(20*time.Second, new(atomic.Int64))
				ideal := servers / each.Seconds()
				if got.usual < servers || got.usual > servers*3/2+1 || got.answered < ideal*0.95 {
					t.Errorf("%+v, want about %d, and %v requests a second", got, servers, ideal)
				}
				if c := r.slots.Concurrency(); c.Reason == "" && c.Now < c.Limit {
					t.Errorf("%+v: it does not say why", c)
				}
			})
		})
	}
}

// Upstream's own trouble does not depend on how many requests there are, and leaves their
// number as it is: round trips that become long or vary, and failures here and there.
func TestConcurrencyDoesNotFallWhereItHelpsNothing(t *testing.T) {
	var asked atomic.Int64
	failing := func(call) reply {
		if asked.Add(1)%4 == 0 { // by chance, there may be so few for a while that it looks like help
			return detail(503)
		}
		return reply{}
	}
	const short = 8 * time.Second
	for _, row := range []struct {
		name       string
		namespaces int
		trouble    func(call) reply
		tried      time.Duration // a smaller window was tried by then, and the backlog is not over
	}{
		{"longer", 1, takes(150*time.Millisecond, 151*time.Millisecond), short},
		{"long", 1, takes(2*time.Second, 2001*time.Millisecond), 15 * time.Second},
		{"long", 50, takes(2*time.Second, 2001*time.Millisecond), 15 * time.Second},
		{"jittery", 1, takes(0, 100*time.Millisecond), short},
		{"jittery", 50, takes(0, 100*time.Millisecond), short},
		{"failing", 1, failing, 15 * time.Second},
		{"failing", 50, failing, 15 * time.Second},
		{"one slow", 50, func(c call) reply {
			if c.id.Namespace == "ns0" {
				return reply{after: 500 * time.Millisecond}
			}
			return reply{}
		}, short},
	} {
		t.Run(fmt.Sprint(row.name, row.namespaces), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.backlog(row.namespaces, 5000)
				time.Sleep(3 * time.Second)
				r.set(func(f *fake) { f.answer = row.trouble })
				time.Sleep(row.tried)
				if got := r.observe(4*time.Second, new(atomic.Int64)); got.usual < concurrency*3/4 {
					t.Errorf("%+v, want %d", got, concurrency)
				}
			})
		})
	}
}

// Requests that time out all at once are fewer afterwards, and in a few seconds as many as
// before.
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

// That upstream throttles one namespace says nothing of the others. A burst of 429 in many
// does.
func TestThrottledNamespacesAndConcurrency(t *testing.T) {
	for throttled, falls := range map[int]bool{1: false, 3: false, 40: true} {
		t.Run(fmt.Sprint(throttled), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				for n := range 40 {
					id := journal.ID{Namespace: fmt.Sprint("ns", n), Key: "warm"}
					r.put(id, "v")
				}
				time.Sleep(5 * time.Second)
				r.set(func(f *fake) {
					f.answer = func(c call) reply {
						var n int
						if _, err := fmt.Sscanf(c.id.Namespace, "ns%d", &n); err != nil || n >= throttled {
							return reply{}
						}
						return reply{status: 429, header: map[string][]string{"Retry-After": {"60"}}}
					}
				})
				least := concurrency
				r.backlog(40, 400)
				for range 20 {
					time.Sleep(50 * time.Millisecond)
					least = min(least, r.slots.Concurrency().Now)
				}
				if falls && least > concurrency/2 || !falls && least < concurrency {
					t.Errorf("%d at least; is it to fall? %v", least, falls)
				}
			})
		})
	}
}
