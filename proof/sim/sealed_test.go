package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
)

var (
	sealedRounds = flag.Int("sealed.rounds", 40/fewer, "how many lives of two hosts are played in front of an upstream that lies")
	sealedRaces  = flag.Int("sealed.races", 1000/fewer, "how many conflicts of two hosts are played whose requests arrive late")
)

// sealing has the lines of a key file.
type sealing struct{ name, first, second string }

func newSealing() sealing {
	line := func(role string) string {
		for line := range strings.Lines(string(seal.Generate())) {
			if key, ok := strings.CutPrefix(line, role+" "); ok {
				return key
			}
		}
		return ""
	}
	return sealing{line("name"), line("seal"), line("seal")}
}

func (s sealing) keys(t *testing.T, lines ...string) *seal.Keys {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("name "+s.name+strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// sealedPair are two hosts with the same keys in front of a liar.
type sealedPair struct {
	t       *testing.T
	liar    *liar
	rand    *rand.Rand
	hosts   []*host
	written map[journal.ID]map[string]bool
	last    map[journal.ID]string
	n       int
	refused int // by hosts that have ended
}

func newSealedPair(t *testing.T, seed uint64, keys ...*seal.Keys) *sealedPair {
	up, l := newLiar(t, seed)
	p := &sealedPair{
		t: t, liar: l, rand: rand.New(rand.NewPCG(seed, 33)), written: make(map[journal.ID]map[string]bool), last: make(map[journal.ID]string),
	}
	for i, k := range keys {
		h := &host{up: up, with: usual, fs: vfs.NewCrashableMem(), last: make(map[journal.ID]string)}
		h.with.keys, h.with.name = k, string(rune('a'+i))
		if err := h.start(); err != nil {
			t.Fatal(err)
		}
		p.hosts = append(p.hosts, h)
	}
	t.Cleanup(func() {
		for _, h := range p.hosts {
			if err := h.node.end(); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

func (p *sealedPair) put(h *host, id journal.ID) {
	p.n++
	value := fmt.Sprintf("canary %s %d", h.with.name, p.n)
	if err := h.put(id, value); err != nil {
		p.t.Fatal(err)
	}
	if p.written[id] == nil {
		p.written[id] = make(map[string]bool)
	}
	p.written[id][value] = true
	p.last[id] = value
}

// get reads from upstream. Nobody ever reads a value that no host has written there.
func (p *sealedPair) get(h *host, id journal.ID) string {
	r := h.node.do(http.MethodGet, path(id), "", "Cache-Control", "no-cache")
	var doc struct{ Value string }
	switch {
	case r.Code == http.StatusNotFound || r.Code/100 == 5:
		return ""
	case r.Code != http.StatusOK || json.Unmarshal(r.Body.Bytes(), &doc) != nil:
		p.t.Errorf("GET of %s: %d %s", id, r.Code, r.Body)
	case !p.written[id][doc.Value]:
		p.t.Errorf("%s reads %q of %s, which nobody has written", h.with.name, doc.Value, id)
	}
	return doc.Value
}

// again restarts a host with other keys.
func (p *sealedPair) again(h *host, keys *seal.Keys) {
	p.refused += int(h.node.refused.Load())
	h.with.keys = keys
	if err := h.again(false, 0); err != nil {
		p.t.Fatal(err)
	}
}

func (p *sealedPair) settle() {
	p.t.Helper()
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		pending := 0
		for _, h := range p.hosts {
			<-h.node.journal.Rebuilt()
			pending += h.node.journal.Stats().Pending
		}
		if pending == 0 {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%d are pending:\n%s", pending, strings.Join(p.hosts[0].up.log[max(0, len(p.hosts[0].up.log)-20):], "\n"))
		}
	}
}

// agree has the hosts read until nobody has anything to repair. Then all of them read the write that was
// acknowledged last.
func (p *sealedPair) agree() {
	p.t.Helper()
	p.liar.be(0, 0)
	p.settle()
	time.Sleep(lateWindow)
	for range 3 {
		for id := range p.last {
			for _, h := range p.hosts {
				p.get(h, id)
			}
		}
		p.settle()
	}
	for id, want := range p.last {
		for _, h := range p.hosts {
			if got := p.get(h, id); got != want {
				p.t.Errorf("%s reads %q of %s, want %q", h.with.name, got, id, want)
			}
		}
	}
	if at := bytes.Index(p.liar.asked, []byte("canary")); at >= 0 {
		p.t.Errorf("upstream was sent %.100q", p.liar.asked[max(0, at-50):])
	}
}

// Two hosts share a sealed memory in front of an upstream that moves, replays, changes and invents values, and
// carries out writes late. Their sealing key is replaced meanwhile. No forgery is accepted, nothing authentic
// is refused, and the last acknowledged write of each entry is what both hosts read in the end.
func TestAnUpstreamThatLies(t *testing.T) {
	s := newSealing()
	before := s.keys(t, "seal ", s.first)
	both := s.keys(t, "seal ", s.first, "open ", s.second)
	after := s.keys(t, "seal ", s.second, "open ", s.first)
	for seed := range uint64(*sealedRounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newSealedPair(t, seed, before, before)
				p.liar.be(0.3, 0.1)
				ids := []journal.ID{{Namespace: "canary", Key: "canary-k"}, {Namespace: "canary", Key: "canary-l"}, {Namespace: "canary-m", Key: "canary-k"}}
				const steps = 120
				for step := range steps {
					for at, keys := range map[int]*seal.Keys{steps / 3: both, steps * 2 / 3: after} {
						if step == at {
							p.again(p.hosts[0], keys)
							p.again(p.hosts[1], keys)
						}
					}
					h, id := p.hosts[p.rand.IntN(2)], ids[p.rand.IntN(len(ids))]
					switch p.rand.IntN(6) {
					case 0, 1, 2:
						p.put(h, id)
					case 3:
						if r := h.node.do(http.MethodGet, "/memory/"+id.Namespace, ""); strings.Contains(r.Body.String(), "invented") {
							t.Errorf("the listing is %s", r.Body)
						}
					default:
						p.get(h, id)
					}
					time.Sleep(time.Duration(p.rand.ExpFloat64() * float64(400*time.Millisecond)))
				}
				p.liar.be(0, 0)
				p.settle()
				time.Sleep(lateWindow)
				for _, h := range p.hosts { // each older version is repaired a few times in a life
					p.again(h, after)
				}
				p.agree()
				if refused := p.refused + int(p.hosts[0].node.refused.Load()+p.hosts[1].node.refused.Load()); refused == 0 || refused > p.liar.forged {
					t.Errorf("%d values were refused, and %d forged", refused, p.liar.forged)
				}
			})
		})
	}
}

// Two hosts with the same keys write the same entry, and their requests arrive late and in another order. All
// converge to the later write.
func TestSealedConflictsConverge(t *testing.T) {
	s := newSealing()
	keys := s.keys(t, "seal ", s.first)
	const together = 50
	for batch := range uint64(max(1, *sealedRaces/together)) {
		synctest.Test(t, func(t *testing.T) {
			p := newSealedPair(t, batch, keys, keys)
			p.liar.be(0, 0.4)
			for n := range together {
				id := journal.ID{Namespace: "canary", Key: fmt.Sprint("canary", n)}
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
// replace what the key has sealed.
func TestAHostWithAnotherKey(t *testing.T) {
	s := newSealing()
	newer, older := s.keys(t, "seal ", s.second, "open ", s.first), s.keys(t, "seal ", s.first)
	synctest.Test(t, func(t *testing.T) {
		p := newSealedPair(t, 1, newer, older)
		id := journal.ID{Namespace: "canary", Key: "canary-k"}
		p.put(p.hosts[0], id)
		p.settle()
		r := p.hosts[1].node.do(http.MethodGet, path(id), "")
		if r.Code/100 != 5 || !strings.Contains(r.Body.String(), newer.ID()) || strings.Contains(r.Body.String(), "bw1.") {
			t.Errorf("a GET is answered %d %s", r.Code, r.Body)
		}
		if err := p.hosts[1].put(id, "canary of a host with another key"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			time.Sleep(5 * time.Minute)
			if n := p.hosts[1].node.journal.Stats().Pending; n != 1 {
				t.Errorf("%d are pending", n)
			}
			if got := p.get(p.hosts[0], id); got != p.last[id] {
				t.Errorf("the host with the newer key reads %q", got)
			}
		}
		p.written[id]["canary of a host with another key"] = true
		p.again(p.hosts[1], newer) // the key has arrived
		p.last[id] = "canary of a host with another key"
		p.agree()
	})
}

// A host with an older key that has just written an entry does not replace what a newer key has sealed since.
func TestASteadyWriterWithAnotherKey(t *testing.T) {
	s := newSealing()
	newer, older := s.keys(t, "seal ", s.second, "open ", s.first), s.keys(t, "seal ", s.first)
	synctest.Test(t, func(t *testing.T) {
		p := newSealedPair(t, 1, newer, older)
		id := journal.ID{Namespace: "canary", Key: "canary-k"}
		for _, h := range []int{1, 0, 1} { // one right after the other
			p.put(p.hosts[h], id)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _, _, _ = p.hosts[h].node.flusher.Flush(ctx, "") // the last one does not get there
			cancel()
		}
		if n := p.hosts[1].node.journal.Stats().Pending; n != 1 {
			t.Errorf("%d are pending", n)
		}
		if got := p.get(p.hosts[0], id); got != "canary a 2" {
			t.Errorf("the host with the newer key reads %q", got)
		}
	})
}

// An older version that stands upstream in the place of a newer one is replaced at the next read. An upstream
// that goes on showing it does not get the newer one for ever.
func TestARepairIsNotForEver(t *testing.T) {
	s := newSealing()
	keys := s.keys(t, "seal ", s.first)
	synctest.Test(t, func(t *testing.T) {
		p := newSealedPair(t, 1, keys, keys)
		id := journal.ID{Namespace: "canary", Key: "canary-k"}
		hidden := journal.ID{Namespace: keys.For("canary").Name()}
		hidden.Key, _ = keys.For("canary").Key("canary-k")
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
			if got := p.get(p.hosts[1], id); got != p.last[id] {
				t.Errorf("it reads %q", got)
			}
			p.settle()
			if n == 0 {
				if got := p.get(p.hosts[0], id); got != p.last[id] {
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
