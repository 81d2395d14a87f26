package flush_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

const day = 24 * time.Hour

// meter is an upstream that accepts a number of writes of a namespace in each period.
type meter struct {
	limit  int
	period time.Duration
	silent bool // it sends no Retry-After

	mu      sync.Mutex
	taken   map[string]int // by namespace and window
	refused int
}

func (m *meter) answer(c call) reply {
	if !c.write() {
		return reply{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	window := c.at.UnixNano() / int64(m.period)
	name := fmt.Sprint(c.id.Namespace, " ", window)
	if m.taken[name] < m.limit {
		m.taken[name]++
		return reply{}
	}
	m.refused++
	if m.silent {
		return reply{status: 429}
	}
	rest := time.Unix(0, (window+1)*int64(m.period)).Sub(c.at)
	return throttled(strconv.Itoa(int((rest + time.Second - 1) / time.Second)))
}

// sum returns what upstream accepted from a namespace in all windows, and what it refused in total.
func (m *meter) sum(namespace string) (taken, refused int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, n := range m.taken {
		if strings.HasPrefix(name, namespace+" ") {
			taken += n
		}
	}
	return taken, m.refused
}

// metered runs a test in virtual time, with an upstream that counts writes and a daemon that knows the
// limit. The test begins with a window.
func metered(t *testing.T, limit quota.Limit, test func(t *testing.T, r *rig, m *meter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &meter{limit: limit.Writes, period: limit.Period, taken: make(map[string]int)}
		f := newFake(t)
		f.answer = m.answer
		sleepUntilNext(limit.Period)
		test(t, newRigWithin(t, f, vfs.NewCrashableMem(), func(string) quota.Limit { return limit }), m)
	})
}

func sleepUntilNext(period time.Duration) {
	time.Sleep(period - time.Duration(time.Now().UnixNano()%int64(period)))
}

// report returns a namespace's budget.
func (r *rig) report(namespace string) quota.Report { return r.quotas.Reports()[namespace] }

// agent records when each value of a key was written, for a day.
type agent struct{ written map[string][]time.Time }

// live writes n values of some keys over a day, in bursts and between them.
func (a *agent) live(r *rig, namespace string, n, keys int, random *rand.Rand) {
	const bursts = 60
	var at []time.Duration
	for range n / 2 { // one after the other, at any time
		at = append(at, time.Duration(random.Int64N(int64(day))))
	}
	for range bursts { // some seconds each
		begins := random.Int64N(int64(day - time.Minute))
		for range n / 2 / bursts {
			at = append(at, time.Duration(begins+random.Int64N(int64(20*time.Second))))
		}
	}
	for len(at) < n {
		at = append(at, day-time.Hour)
	}
	slices.Sort(at)
	start := time.Now()
	for _, when := range at {
		time.Sleep(time.Until(start.Add(when)))
		k := fmt.Sprint(random.IntN(keys))
		r.put(journal.ID{Namespace: namespace, Key: k}, strconv.Itoa(len(a.written[k])))
		a.written[k] = append(a.written[k], time.Now())
	}
}

// ages returns how long each write took until upstream had it, or a newer one of its key.
func (a *agent) ages(t *testing.T, r *rig, namespace string) (ages []time.Duration) {
	t.Helper()
	had := make(map[string]int)
	for _, c := range r.requests(in(namespace)) {
		n, err := strconv.Atoi(c.value)
		if err != nil {
			t.Fatal(err)
		}
		for i := had[c.id.Key]; i <= n; i++ {
			ages = append(ages, c.at.Sub(a.written[c.id.Key][i]))
		}
		had[c.id.Key] = max(had[c.id.Key], n+1)
	}
	for k, written := range a.written {
		if had[k] != len(written) {
			t.Errorf("upstream has %d of %d writes to %s", had[k], len(written), k)
		}
		r.wantHeld(journal.ID{Namespace: namespace, Key: k}, strconv.Itoa(len(written)-1))
	}
	slices.Sort(ages)
	return ages
}
