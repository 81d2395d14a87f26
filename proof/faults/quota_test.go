//go:build faults && linux

package faults

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/internal/wire"
)

var quotaPeriod = flag.Duration("quota.period", 3*time.Second, "quota.period of TestQuotaOfAProcess")

// meter is a memory service that takes so many writes in each window, and answers 429 to more.
// It kills its client once: after the killAt-th write of a window, and before the answer.
// fakeUpstream calls it for one write at a time.
type meter struct {
	next          http.Handler
	quota, killAt int
	period        time.Duration
	killed        chan struct{} // closed when the client has been killed

	mu      sync.Mutex
	client  *child.Process
	life    int // of the client; requests of an earlier one, still on their way, are dropped
	windows map[int64]*metered
}

type metered struct{ taken, refused int }

// lifeHeader names the client's life in its requests.
const lifeHeader = "X-Life"

// admit makes a daemon the client.
func (m *meter) admit(p *child.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.client = p
}

func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		m.next.ServeHTTP(w, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Header.Get(lifeHeader) != strconv.Itoa(m.life) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	number := time.Now().UnixNano()/int64(m.period) + 1
	end := time.Unix(0, number*int64(m.period))
	window := m.window(end)
	if window.taken >= m.quota {
		window.refused++
		w.Header().Set("Retry-After", strconv.Itoa(int(time.Until(end)/time.Second)+1))
		wire.Detail(http.StatusTooManyRequests, "the quota is used up").Write(w)
		return
	}
	window.taken++
	m.next.ServeHTTP(w, r)
	if m.life == 0 && m.client != nil && len(m.windows) > 1 && window.taken == m.killAt {
		m.life++
		_ = m.client.Signal(os.Kill) // the test waits for its end, and finds out
		<-m.client.Exited()
		close(m.killed)
	}
}

// window returns the count of the window that ends then. The caller holds mu.
func (m *meter) window(end time.Time) *metered {
	if m.windows[end.UnixNano()] == nil {
		m.windows[end.UnixNano()] = &metered{}
	}
	return m.windows[end.UnixNano()]
}

// keeps fails the test if the client has gone beyond the quota.
func (m *meter) keeps(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var figures []string
	for end, w := range m.windows {
		figures = append(figures, fmt.Sprintf("%s %d", time.Unix(0, end).UTC().Format(time.TimeOnly), w.taken))
		if w.refused > 0 {
			t.Errorf("in the window until %s, upstream has taken %d writes and refused %d", time.Unix(0, end).UTC(), w.taken, w.refused)
		}
	}
	slices.Sort(figures)
	t.Logf("taken in the windows of %s, by their ends: %v", m.period, figures)
}

// A namespace writes far more than its quota has, and the daemon is killed amid that, with
// requests under way. Upstream never has to refuse a write, and comes to hold the last state
// of every key (contract 18).
//
// The bound has to hold however slow the machine is. The count at the kill is certain, too: of
// so many writes taken in a window, more than upstream.concurrency, some have left in it. So the
// ledger of this window knows of all that the daemon has sent.
func TestQuotaOfAProcess(t *testing.T) {
	t.Parallel()
	const quota, writes, keys = 60, 2000, 150
	up := newUpstream(t)
	m := &meter{
		next: up.service, quota: quota, killAt: quota / 2, period: *quotaPeriod,
		killed: make(chan struct{}), windows: make(map[int64]*metered),
	}
	up.service = m
	dir := t.TempDir()
	begin := func(life int) *daemon {
		d := start(t, dir, up, "--quota-writes-per-day", strconv.Itoa(quota), "--quota-period", m.period.String(),
			"--upstream-concurrency", "16", "--upstream-headers", fmt.Sprintf(`{%q: "%d"}`, lifeHeader, life))
		m.admit(d.Process)
		return d
	}
	began := time.Now()
	l := newLedger()
	d := begin(0)
	restarted := false
	for n := 0; l.answered(http.StatusOK) < writes || !restarted; n++ {
		if status, answer := l.put(d.client, fmt.Sprint("q-", n%keys), 100); status != http.StatusOK && status != 0 {
			t.Fatalf("PUT: %d %.200s", status, answer)
		}
		time.Sleep(m.period / (writes / 2)) // so that the writes come in two windows or more
		select {
		case <-m.killed:
			if !restarted {
				restarted = true
				d = begin(1)
			}
		default:
		}
	}
	written := time.Now()
	d.drained(t, drainLimit+time.Duration(keys/quota+2)*m.period)
	m.keeps(t)
	up.inOrder(t)
	l.audit(t, "upstream", newClient(t, up.url()))
	t.Logf("%d writes to %d keys in %s, all upstream %s later, by %d requests", l.answered(http.StatusOK), keys,
		written.Sub(began).Round(time.Millisecond), time.Since(written).Round(time.Millisecond), len(up.history()))
	d.terminate(t)
}
