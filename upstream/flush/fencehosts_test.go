package flush_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// Two hosts share one upstream. Their clocks are 5 s apart, and one of them is cut off for a while.
func TestTwoHosts(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { twoHosts(t, seed) })
	}
}

func twoHosts(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 17))
		f := newShared(t)
		f.ahead["a.test"] = time.Duration(r.Int64N(int64(20*time.Second))) - 10*time.Second
		f.ahead["b.test"] = f.ahead["a.test"] + 5*time.Second
		a, b := newFencedRig(t, f, vfs.NewMem(), "a.test"), newFencedRig(t, f, vfs.NewMem(), "b.test")
		a.settledPut(key("a"), "v")
		b.settledPut(key("b"), "v")
		hosts := []*rig{a, b}
		hosts[r.IntN(2)].settledPut(key("k"), "base")
		a.cutOff(true)
		uncertain := 200 * time.Millisecond // of when a write arrives upstream, and of the offset's estimate
		last, at := map[*rig]string{}, map[*rig]time.Time{}
		for n := range 1 + r.IntN(8) {
			h := hosts[r.IntN(2)]
			last[h], at[h] = fmt.Sprint(h.fenced, n), time.Now()
			h.put(key("k"), last[h])
			time.Sleep(time.Duration(r.ExpFloat64() * float64(2*time.Second)))
		}
		time.Sleep(time.Second)
		if r.IntN(3) == 0 {
			restarted := a.reopen()
			last[restarted], at[restarted] = last[a], at[a]
			a, uncertain = restarted, 2600*time.Millisecond // only Dates give the offset
		}
		a.cutOff(false)
		a.settleWithin(2 * time.Minute)
		b.settleWithin(2 * time.Minute)
		value, _ := f.holds(key("k"))
		winner, loser := a, b
		if value == last[b] || last[a] == "" {
			winner, loser = b, a
		}
		if gap := at[loser].Sub(at[winner]); last[loser] != "" && gap > uncertain {
			t.Errorf("%s has written %v later, and upstream holds %q", loser.fenced, gap, value)
		}
		if last[winner] != "" && value != last[winner] {
			t.Errorf("upstream holds %q, and the last writes are %q and %q", value, last[a], last[b])
		}
		if last[a] != "" && last[b] != "" && !slices.ContainsFunc(a.letters(), func(l letter) bool { return l.Value == last[loser] && l.Winner == value }) {
			t.Errorf("%q has won; the loser, %q, is not among the dead letters: %+v", value, last[loser], a.letters())
		}
		for _, h := range []*rig{a, b} { // readers ask upstream if their copy is not fresh
			v, err := h.client.Get(t.Context(), key("k"))
			if err != nil {
				t.Fatal(err)
			}
			if !v.Present() {
				continue
			}
			if _, err := h.journal.Fill(key("k"), v.Observation(), func() bool { return true }); err != nil {
				t.Error(err)
			}
			h.wantKnown(key("k"), value, journal.Settled)
		}
	})
}
