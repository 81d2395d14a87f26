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
	"github.com/botwired/botwired/upstream/fence"
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
		// When a write arrives upstream is uncertain, and how far clocks are apart that a Date may show to agree.
		const uncertain = 200*time.Millisecond + time.Duration(fence.Unsure*float64(time.Second))
		time.Sleep(uncertain) // it is no host's later write
		a.cutOff(true)
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
			a = restarted
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
		if last[a] != "" && last[b] != "" && !slices.ContainsFunc(a.letters(), func(l letter) bool { return l.Value == last[loser] }) {
			t.Errorf("%q has won; the loser, %q, is not kept: %+v", value, last[loser], a.letters())
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

// contract 17: the later of two hosts' writes stays, and the other one is kept: by a second's margin if the clocks
// agree, and by two if one of them has to be corrected, or is 2 s wrong.
func TestTheLaterWriteWinsByAnyClock(t *testing.T) {
	for ahead, margin := range map[time.Duration]time.Duration{
		0: time.Second, 900 * time.Millisecond: 2 * time.Second, -2 * time.Second: 3 * time.Second,
		time.Minute: 2 * time.Second, -time.Minute: 2 * time.Second, time.Hour: 2 * time.Second, -time.Hour: 2 * time.Second,
	} {
		t.Run(ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random, f := rand.New(rand.NewPCG(1, uint64(ahead))), newShared(t)
				f.ahead["a.test"] = ahead
				a, b := newFencedRig(t, f, vfs.NewMem(), "a.test"), newFencedRig(t, f, vfs.NewMem(), "b.test")
				for round := range 150 {
					time.Sleep(10*time.Second + time.Duration(random.Int64N(int64(time.Second))))
					a.cutOff(true)
					first, second := a, b
					if random.IntN(2) == 0 {
						first, second = b, a
					}
					first.put(key("k"), fmt.Sprint("first", round))
					time.Sleep(margin)
					second.put(key("k"), fmt.Sprint("second", round))
					b.settleWithin(time.Minute)
					a.cutOff(false)
					a.settleWithin(time.Minute)
					a.wantHeld(key("k"), fmt.Sprint("second", round))
					if kept := a.letters(); len(kept) != round+1 || kept[round].Value != fmt.Sprint("first", round) {
						t.Fatalf("round %d: kept are %v", round, kept[max(0, len(kept)-2):])
					}
				}
			})
		})
	}
}

// contract 17: two hosts write one key while one of them is cut off, again and again: each state that loses is kept as lost,
// once, by one of them, and both end with what upstream holds.
func TestAThousandConflicts(t *testing.T) {
	const rounds = 1000
	synctest.Test(t, func(t *testing.T) {
		random, f := rand.New(rand.NewPCG(3, 5)), newShared(t)
		hosts := []*rig{newFencedRig(t, f, vfs.NewMem(), "a.test"), newFencedRig(t, f, vfs.NewMem(), "b.test")}
		var losers []string
		last := ""
		for round := range rounds {
			time.Sleep(time.Minute)
			away, there := hosts[round%2], hosts[1-round%2]
			away.cutOff(true)
			first, second := away, there
			if random.IntN(2) == 0 {
				first, second = there, away
			}
			loser, winner := fmt.Sprint("earlier", round), fmt.Sprint("later", round)
			first.put(key("k"), loser)
			time.Sleep(3 * time.Second)
			second.put(key("k"), winner)
			there.settleWithin(time.Minute)
			away.cutOff(false)
			away.settleWithin(time.Minute)
			for _, h := range hosts {
				if state := h.read(key("k")); state.Value != winner {
					t.Fatalf("round %d: %s holds %q, want %q", round, h.fenced, state.Value, winner)
				}
			}
			losers, last = append(losers, loser), winner
		}
		hosts[0].wantHeld(key("k"), last)
		kept := make(map[string]int)
		for _, h := range hosts {
			lost, err := h.journal.History.Lost(key("k").Namespace, 0, 2*rounds)
			if err != nil {
				t.Fatal(err)
			}
			past, err := h.journal.History.Of(key("k"), 10*rounds)
			if err != nil {
				t.Fatal(err)
			}
			values := make(map[uint64]string)
			for _, p := range past {
				values[p.Seq] = p.Value
			}
			for _, l := range lost {
				kept[values[l.Seq]]++
			}
			if letters, err := h.journal.DeadLetters(0, 1); err != nil || len(letters) > 0 {
				t.Errorf("%s has the dead letters %+v, %v", h.fenced, letters, err)
			}
		}
		for _, loser := range losers {
			if kept[loser] != 1 {
				t.Errorf("%s is lost %d times", loser, kept[loser])
			}
		}
		if len(kept) != rounds {
			t.Errorf("%d states are lost, and %d writes were earlier ones", len(kept), rounds)
		}
	})
}

// contract 17: a host takes none of its own writes for another host's, whichever of the clocks is wrong.
func TestAHostMakesNoConflictWithItself(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		for _, gateway := range []time.Duration{0, time.Hour, -time.Hour} {
			if ahead != 0 && gateway != 0 {
				continue
			}
			fenced(t, func(t *testing.T, r *rig) {
				r.set(func(f *fake) { f.ahead[r.fenced], f.gateway = ahead, gateway })
				for n := range 3 {
					r.settledPut(key("k"), fmt.Sprint("v", n))
					r.wantHeld(key("k"), fmt.Sprint("v", n))
					time.Sleep(time.Second)
				}
				r.wantLetters()
			})
		}
	}
}
