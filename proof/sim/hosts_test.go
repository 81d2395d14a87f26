package sim

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/botwired/botwired/journal"
)

// host is one of two daemons in front of one upstream. It has two entries of its own in the
// namespace that they share.
type host struct {
	up      *service
	with    settings
	fs      *vfs.MemFS
	free    atomic.Int64 // on its disk
	node    *node
	entries []journal.ID
	last    map[journal.ID]string
}

func newHost(up *service, with settings, n int) (*host, error) {
	h := &host{up: up, with: with, fs: vfs.NewCrashableMem(), last: make(map[journal.ID]string)}
	h.with.name = strconv.Itoa(n)
	for i := range 2 {
		h.entries = append(h.entries, journal.ID{Namespace: namespaces[0], Key: fmt.Sprintf("canary-%d-%d", n, i)})
	}
	return h, h.start()
}

func (h *host) start() (err error) {
	h.free.Store(roomy)
	if h.node, err = open(disk{h.fs, &h.free}, h.up, h.with); err == nil {
		h.node.start()
	}
	return err
}

// again restarts the host, by a crash or in good order.
func (h *host) again(crashes bool, seed int64) error {
	next := h.fs
	if crashes {
		h.node.sever()
		next = h.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(seed), 0))})
	}
	if err := h.node.end(); err != nil {
		return err
	}
	h.up.newLife()
	h.fs = next
	return h.start()
}

func (h *host) put(id journal.ID, value string) error {
	h.node.makes(id, state{true, value})
	if r := h.node.do(http.MethodPut, path(id), `{"value":"`+value+`"}`); r.Code != http.StatusOK {
		return fmt.Errorf("PUT was answered %d: %s", r.Code, r.Body)
	}
	h.last[id] = value
	return nil
}

// deed is one step of a script of two hosts.
type deed struct {
	Action action // put, wait, crash or restart
	Host   int
	Entry  int
	Writes int // one after the other
	Wait   time.Duration
	Seed   int64
}

func drawDeed(t *rapid.T) deed {
	return deed{
		Action: rapid.SampledFrom([]action{put, put, put, put, wait, wait, crash, restart}).Draw(t, "action"),
		Host:   rapid.IntRange(0, 1).Draw(t, "host"),
		Entry:  rapid.IntRange(0, 1).Draw(t, "entry"),
		Writes: rapid.IntRange(1, 10).Draw(t, "writes"),
		Wait:   rapid.SampledFrom([]time.Duration{linger, time.Second, 7 * time.Second, time.Minute, 11 * time.Minute}).Draw(t, "wait"),
		Seed:   rapid.Int64().Draw(t, "seed"),
	}
}

// Two hosts share the quota of a namespace, and neither knows of the other but by upstream's
// 429. Upstream has to refuse few writes in a window, none is lost, and both hosts get rid of
// all (contract 17, 18).
func TestTwoHostsOfOneQuota(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		quota := drawQuotaOf(rt, []int{3, 8, 20, 60})
		sealed := drawSealed(rt)
		deeds := rapid.SliceOfN(rapid.Custom(drawDeed), 1, 60).Draw(rt, "deeds")
		var failed error
		var up *service
		synctest.Test(t, func(*testing.T) {
			with := usual
			if with.quota = quota; sealed {
				seals(&with)
			}
			up = newServiceOf(with)
			up.quota, up.shared = quota, true
			failed = playHosts(up, with, deeds)
			up.close()
		})
		if failed != nil {
			rt.Fatalf("%v\nquota: %+v, sealed: %t\nupstream was asked:\n  %s", failed, quota, sealed, strings.Join(up.log, "\n  "))
		}
	})
}

func playHosts(up *service, with settings, deeds []deed) (failed error) {
	var hosts []*host
	for n := range 2 {
		h, err := newHost(up, with, n)
		if err != nil {
			return err
		}
		hosts = append(hosts, h)
		defer func() {
			if err := h.node.end(); failed == nil {
				failed = err
			}
		}()
	}
	for i, d := range deeds {
		if err := hosts[d.Host].act(d, i); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	for end := time.Now().Add(patience + 3*with.quota.Period); pendingOf(hosts) > 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			return fmt.Errorf("contract 18: %d are pending at the end", pendingOf(hosts))
		}
	}
	holds := up.snapshot()
	for _, h := range hosts {
		for id, value := range h.last {
			if holds[id] != value {
				return fmt.Errorf("contract 18: upstream holds %q of %s, and the last write is %s", holds[id], id, value)
			}
		}
	}
	return up.violation()
}

func (h *host) act(d deed, n int) error {
	switch d.Action {
	case put:
		for i := range d.Writes {
			if err := h.put(h.entries[d.Entry], fmt.Sprintf("canary-%d.%d", n, i)); err != nil {
				return err
			}
			time.Sleep(2 * linger)
		}
	case crash, restart:
		return h.again(d.Action == crash, d.Seed)
	default:
		time.Sleep(d.Wait)
	}
	return h.up.violation()
}

func pendingOf(hosts []*host) (n int) {
	for _, h := range hosts {
		<-h.node.journal.Rebuilt()
		n += h.node.journal.Stats().Pending
	}
	return n
}
