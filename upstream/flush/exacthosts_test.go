package flush_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Three hosts share a bucket. Their requests meet every mishap, and they are cut off, restarted, or
// have not heard of each other. All converge: the latest write by time remains. Every other write was
// followed by one that knew it, or is a dead letter of some host.
func TestThreeHostsOverABucket(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newTrio(t, seed).run() })
		})
	}
}

type trio struct {
	t     *testing.T
	rand  *rand.Rand
	b     *bucket
	hosts []*versioned
	keys  []journal.ID
	acked map[journal.ID][]acked
	// read holds the versions that a host has read, by host, entry and value.
	read map[[3]string]bool
	// restarts says that hosts are restarted. After a restart, a host does not keep states from before
	// it.
	restarts bool
}

// acked is a write that a host has acknowledged.
type acked struct {
	host  string
	value string // its value; empty for a delete
	at    float64
}

func newTrio(t *testing.T, seed uint64) *trio {
	r := rand.New(rand.NewPCG(seed, 16))
	b := newBucket(t)
	x := &trio{t: t, rand: r, b: b, keys: []journal.ID{key("k"), key("l")}, acked: make(map[journal.ID][]acked), read: make(map[[3]string]bool), restarts: seed%2 == 0}
	for i := range 3 {
		s := &seat{bucket: b, host: string(rune('a' + i)), lag: time.Duration(r.IntN(4)) * time.Second}
		x.hosts = append(x.hosts, newVersioned(t, s, vfs.NewMem()))
	}
	var mu sync.Mutex // the hosts' flushers call concurrently
	luck := rand.New(rand.NewPCG(seed, 17))
	b.mishap = func(string, upstream.Proposal) mishap {
		mu.Lock()
		defer mu.Unlock()
		if luck.IntN(3) > 0 {
			return fine
		}
		return mishap(luck.IntN(int(mishaps)))
	}
	return x
}

func (x *trio) run() {
	for n := range 40 {
		x.step(n)
		time.Sleep(time.Duration(x.rand.ExpFloat64() * float64(500*time.Millisecond)))
	}
	x.b.set(func(b *bucket) { b.mishap, b.away = nil, map[string]bool{} })
	for _, v := range x.hosts {
		v.settleWithin(5 * time.Minute)
	}
	time.Sleep(time.Minute) // for requests that land late
	for _, id := range x.keys {
		x.check(id)
	}
}

func (x *trio) step(n int) {
	i := x.rand.IntN(len(x.hosts))
	v, id := x.hosts[i], x.keys[x.rand.IntN(len(x.keys))]
	switch what := x.rand.IntN(12); {
	case what == 0 && x.restarts:
		<-v.journal.Rebuilt()
		x.hosts[i] = v.reopened()
	case what == 1:
		away := x.rand.IntN(2) == 0
		x.b.set(func(b *bucket) { b.away[v.fenced] = away })
	case what == 2, what == 3: // a reader asks upstream
		seen, err := v.seat.Get(x.t.Context(), id)
		if err != nil {
			return
		}
		o := seen.Observation()
		switch _, err := v.journal.Fill(id, o, func() bool { return true }); {
		case err == nil && o != nil:
			x.read[[3]string{v.fenced, id.Key, o.Value}] = true
		case err != nil && !errors.Is(err, journal.ErrChanged):
			x.t.Error(err)
		}
	case what == 4:
		w := v.del(id)
		x.acked[id] = append(x.acked[id], acked{v.fenced, "", w.UpdatedAt})
	case what == 5:
		x.confirm(v, id, fmt.Sprint(v.fenced, n))
	default:
		w := v.put(id, fmt.Sprint(v.fenced, n))
		x.acked[id] = append(x.acked[id], acked{v.fenced, w.Value, w.UpdatedAt})
	}
}

// confirm makes a write and waits until upstream has confirmed it.
func (x *trio) confirm(v *versioned, id journal.ID, value string) {
	w := v.put(id, value)
	x.acked[id] = append(x.acked[id], acked{v.fenced, value, w.UpdatedAt})
	_, _ = v.flusher.Confirm(x.t.Context(), id, w.Seq, false)
}

func (x *trio) check(id journal.ID) {
	now := x.b.now(id)
	for _, w := range x.acked[id] {
		if micros(w.at) > micros(now.WrittenAt) {
			x.t.Errorf("%s: %s has written %q at %f, and upstream has %+v", id, w.host, w.value, w.at, now)
		}
		if w.value != "" && !x.accounted(id, w) {
			x.t.Errorf("%s: %q of %s is nowhere: %+v", id, w.value, w.host, x.b.entries[id])
		}
	}
	if !x.restarts {
		x.checkOverwritten(id)
	}
	for _, v := range x.hosts {
		state, err := v.journal.Lookup(id)
		if err != nil || v.pending() != 0 {
			x.t.Errorf("%s: %v, %d are pending", v.fenced, err, v.pending())
		}
		if state.Kind == journal.Settled && micros(state.UpdatedAt) > micros(now.WrittenAt) && state.Value != now.Value {
			x.t.Errorf("%s: %s knows %+v, and upstream has %+v", id, v.fenced, state, now)
		}
	}
}

// accounted reports whether a write is not lost: upstream has had it, its host has superseded it by a
// later write, or it is kept.
func (x *trio) accounted(id journal.ID, w acked) bool {
	if slices.ContainsFunc(x.b.entries[id], func(v upstream.Version) bool { return v.Value == w.value }) {
		return true
	}
	if slices.ContainsFunc(x.acked[id], func(other acked) bool { return other.host == w.host && other.at > w.at }) {
		return true
	}
	return slices.ContainsFunc(x.hosts, func(v *versioned) bool {
		return slices.ContainsFunc(v.letters(), func(l letter) bool { return l.Value == w.value })
	})
}

// shown returns the values that upstream has shown a host of an entry.
func (v *versioned) shown(id journal.ID) (values []string) {
	past, err := v.journal.History.Of(id, 1000)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, p := range past {
		if p.Shown && p.Op == journal.Put {
			values = append(values, p.Value)
		}
	}
	return values
}

// checkOverwritten looks for a version of one host that another host has overwritten without knowing it
// and without keeping it.
func (x *trio) checkOverwritten(id journal.ID) {
	all := x.b.entries[id]
	for i := 1; i < len(all); i++ {
		over, by := all[i-1], all[i]
		if over.Deleted || over.Writer.Host == by.Writer.Host || x.read[[3]string{by.Writer.Host, id.Key, over.Value}] {
			continue
		}
		h := slices.IndexFunc(x.hosts, func(v *versioned) bool { return v.fenced == by.Writer.Host })
		kept := slices.ContainsFunc(x.hosts[h].letters(), func(l letter) bool { return l.Theirs && l.Value == over.Value })
		kept = kept || slices.ContainsFunc(x.hosts[h].shown(id), func(value string) bool { return value == over.Value })
		if !kept {
			x.t.Errorf("%s: %+v has overwritten %+v unseen", id, by, over)
		}
	}
}

// micros converts Unix seconds as an engine stores them.
func micros(seconds float64) int64 { return int64(seconds*1e6 + 0.5) }
