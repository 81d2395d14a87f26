package sim

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// sealing has the lines of a key file.
type sealing struct {
	name string
	keys []string
}

func newSealing() (s sealing) {
	for range 4 {
		for line := range strings.Lines(string(seal.Generate())) {
			if key, ok := strings.CutPrefix(line, "name "); ok {
				s.name = key
			}
			if key, ok := strings.CutPrefix(line, "seal "); ok {
				s.keys = append(s.keys, key)
			}
		}
	}
	return s
}

// stage returns the key file after so many steps of rotations: first it can open what the next key seals, then
// it seals with that. The random source of all machines always returns the same.
func (s sealing) stage(t *testing.T, n int) *seal.Keys {
	t.Helper()
	text := "name " + s.name + "seal " + s.keys[n/2]
	for i, key := range s.keys[:(n+1)/2+1] {
		if i != n/2 {
			text += "open " + key
		}
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func(r io.Reader) { cryptorand.Reader = r }(cryptorand.Reader)
	cryptorand.Reader = stuck{}
	keys, err := seal.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

type stuck struct{}

func (stuck) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// sealedHosts have a sealed memory together, in front of a liar.
type sealedHosts struct {
	t     *testing.T
	liar  *liar
	audit *audit
	rand  *rand.Rand
	hosts []*host
	wrote []sealedWrite
	known map[*host]map[journal.ID]bool // what a host has a copy of
	last  map[journal.ID]string         // "" if it was deleted
	ops   int
}

// sealedWrite is an acknowledged one.
type sealedWrite struct {
	host  *host
	id    journal.ID
	value string
	seq   uint64
}

func newSealedHosts(t *testing.T, seed uint64, keys ...*seal.Keys) *sealedHosts {
	up, l := newLiar(t, seed)
	p := &sealedHosts{
		t: t, liar: l, audit: newAudit(), rand: rand.New(rand.NewPCG(seed, 33)),
		known: make(map[*host]map[journal.ID]bool), last: make(map[journal.ID]string),
	}
	for i, k := range keys {
		p.join(&host{up: up, fs: vfs.NewCrashableMem(), with: usual}, string(rune('a'+i)), k)
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

func (p *sealedHosts) join(h *host, name string, keys *seal.Keys) {
	h.with.name, h.last = name, make(map[journal.ID]string)
	h.with.losses = journal.UsualLossLimit
	p.audit.watch(&h.with, keys)
	if err := h.start(); err != nil {
		p.t.Fatal(err)
	}
	p.hosts, p.known[h] = append(p.hosts, h), make(map[journal.ID]bool)
}

const cloned = "-clone"

// clone makes another machine of one that runs. Either its daemon goes on, under the same name, or it starts anew.
func (p *sealedHosts) clone(h *host, keys *seal.Keys) {
	with := usual
	if p.rand.IntN(2) == 0 {
		with.clone, with.earlier = h.with.name+cloned, make(upstream.Earlier)
	}
	p.join(&host{up: h.up, fs: h.copyOf(p.rand), with: with}, h.with.name, keys)
}

func (p *sealedHosts) put(h *host, id journal.ID) {
	p.ops++
	value := fmt.Sprintf("canary-%s %d", h.with.name, p.ops)
	if err := h.put(id, value); err != nil {
		p.t.Fatal(err)
	}
	state, err := h.node.journal.Lookup(id)
	if err != nil || state.Seq == 0 {
		p.t.Errorf("%s is not pending (%v)", value, err)
	}
	p.wrote = append(p.wrote, sealedWrite{h, id, value, state.Seq})
	p.last[id], p.known[h][id] = value, true
}

func (p *sealedHosts) remove(h *host, id journal.ID) {
	p.ops++
	if r := h.node.do(http.MethodDelete, path(id), ""); r.Code/100 == 2 {
		p.last[id] = ""
	}
}

// get reads an entry. Nobody ever reads a value that no host has written there. Where there is a copy of an entry
// that nobody deletes, it is never said to be absent, and a reader who does not insist gets a value.
func (p *sealedHosts) get(h *host, id journal.ID, header ...string) string {
	p.ops++
	r := h.node.do(http.MethodGet, path(id), "", header...)
	var doc struct{ Value string }
	switch {
	case r.Code == http.StatusNotFound && (!p.known[h][id] || id.Namespace == deletable || id.Namespace == hoard):
		return ""
	case r.Code/100 == 5 && (!p.known[h][id] || len(header) > 0):
		return ""
	case r.Code != http.StatusOK || json.Unmarshal(r.Body.Bytes(), &doc) != nil:
		p.t.Errorf("GET of %s by %s: %d %s", id, h.with.name, r.Code, r.Body)
	case !slices.ContainsFunc(p.wrote, func(w sealedWrite) bool { return w.id == id && w.value == doc.Value }):
		p.t.Errorf("%s reads %q of %s, which nobody has written", h.with.name, doc.Value, id)
	}
	p.known[h][id] = true
	return doc.Value
}

// insist reads from upstream.
func (p *sealedHosts) insist(h *host, id journal.ID) string {
	return p.get(h, id, "Cache-Control", "no-cache")
}

func (p *sealedHosts) list(h *host, namespace string, header ...string) {
	p.ops++
	r := h.node.do(http.MethodGet, "/memory/"+namespace, "", header...)
	var doc struct{ Keys []struct{ Key string } }
	if r.Code/100 == 5 {
		return
	}
	if r.Code != http.StatusOK || json.Unmarshal(r.Body.Bytes(), &doc) != nil {
		p.t.Errorf("LIST of %s by %s: %d %s", namespace, h.with.name, r.Code, r.Body)
	}
	for _, row := range doc.Keys {
		if !strings.HasPrefix(row.Key, "canary-") {
			p.t.Errorf("%s lists %q", h.with.name, row.Key)
		}
	}
}

// again restarts a host with other keys, by a crash or in good order. After a crash it may lack copies of what
// it has only read.
func (p *sealedHosts) again(h *host, keys *seal.Keys, crashes bool) {
	p.audit.watch(&h.with, keys)
	if err := h.again(crashes, p.rand.Int64()); err != nil {
		p.t.Fatal(err)
	}
	if crashes {
		p.known[h] = make(map[journal.ID]bool)
	}
}

func (p *sealedHosts) settle() {
	p.t.Helper()
	for end := time.Now().Add(patience); pendingOf(p.hosts) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%d are pending:\n%s", pendingOf(p.hosts), p.log())
		}
	}
}

func (p *sealedHosts) log() string {
	log := p.hosts[0].up.log
	return strings.Join(log[max(0, len(log)-20):], "\n")
}

// agree has the hosts read until nobody has anything to repair. Then all of them read the write that was
// acknowledged last, or the same where upstream could delete, and each write is accounted for.
func (p *sealedHosts) agree() {
	p.t.Helper()
	p.liar.be(0, 0)
	p.settle()
	time.Sleep(lateWindow)
	for range 3 {
		for _, id := range p.ids() {
			for _, h := range p.hosts {
				p.insist(h, id)
			}
		}
		p.settle()
	}
	for _, id := range p.ids() {
		want := p.last[id]
		if id.Namespace == deletable {
			want = p.insist(p.hosts[0], id)
		}
		for _, h := range p.hosts {
			if got := p.insist(h, id); got != want {
				p.t.Errorf("%s reads %q of %s, want %q", h.with.name, got, id, want)
			}
		}
	}
	p.account()
	p.audit.mu.Lock()
	defer p.audit.mu.Unlock()
	for _, wrong := range p.audit.wrong {
		p.t.Error(wrong)
	}
	if err := p.liar.watch.Err(); err != nil {
		p.t.Error(err)
	}
}

func (p *sealedHosts) ids() []journal.ID {
	return slices.SortedFunc(maps.Keys(p.last), func(a, b journal.ID) int { return strings.Compare(path(a), path(b)) })
}

// account looks up what has become of each acknowledged write: upstream had it, its host or another one wrote
// later, or it is listed.
func (p *sealedHosts) account() {
	order := make(map[string]int)
	for n, w := range p.wrote {
		order[w.value] = n
	}
	for n, w := range p.wrote {
		receipt, err := w.host.node.journal.Receipts.Read(context.Background(), w.seq)
		switch {
		case err == nil && receipt.State == journal.ReceiptSettled:
		case err == nil && receipt.State == journal.ReceiptSuperseded && receipt.By > w.seq:
		case err == nil && lost(receipt):
			lost, err := w.host.losers(w.id)
			if winner, ok := lost[w.value]; err != nil || !ok || order[winner] < n {
				p.t.Errorf("%s is lost against %q, listed %t (%v)", w.value, winner, ok, err)
			}
		default:
			p.t.Errorf("the receipt of %s is %+v (%v)", w.value, receipt, err)
		}
	}
}
