package sim

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
)

var (
	sealedRounds = flag.Int("sealed.rounds", 20/fewer, "how many lives of some hosts are played in front of an upstream that lies")
	sealedRaces  = flag.Int("sealed.races", 1000/fewer, "how many conflicts of two hosts are played whose requests arrive late")
)

// Two to four hosts share a sealed memory in front of an upstream that moves, replays, changes, invents and denies
// values, takes writes back, adds names to lists and leaves some out, deletes, and carries out writes late. Their
// keys are replaced meanwhile, a host may keep an old key file, and a machine may be cloned. No forgery is
// accepted, nothing authentic is refused, each acknowledged write is accounted for, and the last one of each
// entry is what all hosts read in the end.
func TestAnUpstreamThatLies(t *testing.T) {
	s := newSealing()
	stages := make([]*seal.Keys, 2*len(s.keys)-1)
	for n := range stages {
		stages[n] = s.stage(t, n)
	}
	var ops, writes, accepted, refused, locked, dropped, rotations int
	for seed := range uint64(*sealedRounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newSealedLife(t, seed, stages)
				l.play()
				ops, writes, accepted, refused = ops+l.ops, writes+len(l.wrote), accepted+l.audit.accepted, refused+l.audit.refused
				locked, dropped, rotations = locked+l.audit.locked, dropped+l.audit.dropped, rotations+slices.Max(l.stage)/2
			})
		})
	}
	t.Logf("%d operations, %d of them writes; %d authentic answers accepted, %d forgeries refused, %d under a key that was not there; "+
		"%d names dropped; %d rotations", ops, writes, accepted, refused, locked, dropped, rotations)
}

// Two hosts with the same keys write the same entry, and their requests arrive late and in another order. All
// converge to the later write.
func TestSealedConflictsConverge(t *testing.T) {
	s := newSealing()
	keys := s.stage(t, 0)
	const together = 50
	for batch := range uint64(max(1, *sealedRaces/together)) {
		synctest.Test(t, func(t *testing.T) {
			p := newSealedHosts(t, batch, keys, keys)
			p.liar.be(0, 0.4)
			for n := range together {
				id := journal.ID{Namespace: "canary-ns", Key: fmt.Sprint("canary-", n)}
				for range 1 + p.rand.IntN(3) {
					p.put(p.hosts[p.rand.IntN(2)], id)
					time.Sleep(time.Duration(p.rand.Int64N(int64(400 * time.Millisecond))))
				}
			}
			p.agree()
		})
	}
}

// A host whose key file lacks a key says which, answers neither 404 nor with what is sealed, and does not
// replace what the key has sealed. Its other writes go on.
func TestAHostWithAnotherKey(t *testing.T) {
	s := newSealing()
	newer, older := s.stage(t, 2), s.stage(t, 0)
	synctest.Test(t, func(t *testing.T) {
		p := newSealedHosts(t, 1, newer, older)
		id := journal.ID{Namespace: "canary-ns", Key: "canary-k"}
		p.put(p.hosts[0], id)
		p.settle()
		r := p.hosts[1].node.do(http.MethodGet, path(id), "")
		if r.Code/100 != 5 || !strings.Contains(r.Body.String(), newer.ID()) || strings.Contains(r.Body.String(), "bw1.") {
			t.Errorf("a GET is answered %d %s", r.Code, r.Body)
		}
		p.put(p.hosts[1], id)
		p.put(p.hosts[1], journal.ID{Namespace: "canary-ns", Key: "canary-l"})
		for range 2 {
			time.Sleep(5 * time.Minute)
			if n := p.hosts[1].node.journal.Stats().Pending; n != 1 {
				t.Errorf("%d are pending", n)
			}
			if got := p.insist(p.hosts[0], id); got != p.wrote[0].value {
				t.Errorf("the host with the newer key reads %q", got)
			}
		}
		p.again(p.hosts[1], newer, false) // the key has arrived
		p.agree()
	})
}

// A host with an older key that has just written an entry does not replace what a newer key has sealed since.
func TestASteadyWriterWithAnotherKey(t *testing.T) {
	s := newSealing()
	newer, older := s.stage(t, 2), s.stage(t, 0)
	synctest.Test(t, func(t *testing.T) {
		p := newSealedHosts(t, 1, newer, older)
		id := journal.ID{Namespace: "canary-ns", Key: "canary-k"}
		for _, h := range []int{1, 0, 1} { // one right after the other
			p.put(p.hosts[h], id)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _, _, _ = p.hosts[h].node.flusher.Flush(ctx, "") // the last one does not get there
			cancel()
		}
		if n := p.hosts[1].node.journal.Stats().Pending; n != 1 {
			t.Errorf("%d are pending", n)
		}
		if got := p.insist(p.hosts[0], id); got != p.wrote[1].value {
			t.Errorf("the host with the newer key reads %q", got)
		}
	})
}

// An older version that stands upstream in the place of a newer one is replaced at the next read. An upstream
// that goes on showing it does not get the newer one for ever.
func TestARepairIsNotForEver(t *testing.T) {
	s := newSealing()
	keys := s.stage(t, 0)
	synctest.Test(t, func(t *testing.T) {
		p := newSealedHosts(t, 1, keys, keys)
		id := journal.ID{Namespace: "canary-ns", Key: "canary-k"}
		hidden := journal.ID{Namespace: keys.For("canary-ns").Name()}
		hidden.Key, _ = keys.For("canary-ns").Key("canary-k")
		p.put(p.hosts[0], id)
		p.settle()
		p.put(p.hosts[1], id)
		p.settle()
		replay := func() {
			p.liar.mu.Lock()
			e := p.liar.past[hidden][0]
			e.updated = p.liar.now()
			p.liar.entries[hidden] = e
			p.liar.mu.Unlock()
		}
		puts := func() int {
			p.liar.mu.Lock()
			defer p.liar.mu.Unlock()
			return len(p.liar.past[hidden])
		}
		for n := range 20 {
			replay()
			if got := p.insist(p.hosts[1], id); got != p.last[id] {
				t.Errorf("it reads %q", got)
			}
			p.settle()
			if n == 0 {
				if got := p.insist(p.hosts[0], id); got != p.last[id] {
					t.Errorf("the other host reads %q", got)
				}
			}
			time.Sleep(time.Minute)
		}
		if n := puts(); n < 3 || n > 8 {
			t.Errorf("upstream was sent %d writes", n)
		}
	})
}

// contract 17: an older version of this host's own that upstream shows to a fence is no other host's.
func TestAReplayIsNoConflict(t *testing.T) {
	s := newSealing()
	keys := s.stage(t, 0)
	synctest.Test(t, func(t *testing.T) {
		p := newSealedHosts(t, 1, keys)
		id := journal.ID{Namespace: "canary-ns", Key: "canary-k"}
		hidden := journal.ID{Namespace: keys.For("canary-ns").Name()}
		hidden.Key, _ = keys.For("canary-ns").Key("canary-k")
		for range 3 {
			p.put(p.hosts[0], id)
			p.settle()
			time.Sleep(time.Minute)
			p.liar.mu.Lock()
			p.liar.entries[hidden] = p.liar.past[hidden][0]
			p.liar.mu.Unlock()
		}
		lost, err := p.hosts[0].losers(id)
		if err != nil || len(lost) > 0 {
			t.Errorf("it has lost %q (%v)", lost, err)
		}
		p.agree()
	})
}

// What an upstream leaves out of its list counts as deleted there, until it lists the entry again or shows it to a
// reader who insists. The history keeps the value. If upstream leaves out much at once, the copies stay.
func TestAnUpstreamThatOmits(t *testing.T) {
	keys := newSealing().stage(t, 0)
	for entries, believed := range map[int]bool{9: true, 10: false} {
		synctest.Test(t, func(t *testing.T) {
			p := newSealedHosts(t, 1, keys)
			h, id := p.hosts[0], func(n int) journal.ID { return journal.ID{Namespace: "canary-ns", Key: fmt.Sprint("canary-", n)} }
			for n := range entries {
				p.put(h, id(n))
			}
			p.settle()
			wants := func(what string, status int, header ...string) {
				t.Helper()
				for n := range entries {
					if r := h.node.do(http.MethodGet, path(id(n)), "", header...); r.Code != status {
						t.Errorf("%d entries, %s: %s is %d", entries, what, id(n), r.Code)
					}
				}
			}
			list := func() {
				time.Sleep(time.Minute)
				p.list(h, "canary-ns", "Cache-Control", "no-cache")
			}
			p.liar.omit(keys.For("canary-ns").Name(), 1)
			list()
			if lost := slices.Contains(h.lacking(), "canary-ns"); lost == believed {
				t.Errorf("%d entries: it is data loss: %t", entries, lost)
			}
			if !believed {
				wants("data loss", http.StatusOK)
				return
			}
			wants("left out", http.StatusNotFound)
			r := h.node.do(http.MethodGet, "/_botwired/revisions?namespace=canary-ns&key=canary-0", "")
			if !strings.Contains(r.Body.String(), p.last[id(0)]) {
				t.Errorf("the history is %d %s", r.Code, r.Body)
			}
			wants("asked for", http.StatusOK, "Cache-Control", "no-cache")
			p.liar.omit(keys.For("canary-ns").Name(), 0)
			list()
			wants("listed again", http.StatusOK)
		})
	}
}
