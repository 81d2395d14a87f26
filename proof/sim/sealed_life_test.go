package sim

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
)

const (
	// deletable is the namespace in which hosts and upstream delete: nobody can tell one from the other.
	deletable = "canary-d"
	// hoard is the namespace that upstream loses.
	hoard = "canary-h"
	// sealedSteps is the length of a life.
	sealedSteps = 120
)

// enduring are the entries that nobody deletes.
var enduring = []journal.ID{{Namespace: "canary-n", Key: "canary-k"}, {Namespace: "canary-n", Key: "canary-l"}, {Namespace: "canary-m", Key: "canary-k"}}

func deletables(n int) journal.ID {
	return journal.ID{Namespace: deletable, Key: "canary-" + string(rune('a'+n))}
}
func hoarded(n int) journal.ID {
	return journal.ID{Namespace: hoard, Key: "canary-" + string(rune('a'+n))}
}

// sealedLife is what some hosts and their liar do.
type sealedLife struct {
	*sealedHosts
	stages []*seal.Keys // of the rotations
	stage  []int        // of each host
	behind int          // the host that keeps its old key file; -1 if none does
	hoards int          // how many entries upstream is to lose
	erases bool         // they are really gone
}

func newSealedLife(t *testing.T, seed uint64, stages []*seal.Keys) *sealedLife {
	hosts := 2 + int(seed%3)
	l := &sealedLife{
		sealedHosts: newSealedHosts(t, seed, slices.Repeat(stages[:1], hosts)...), stages: stages, stage: make([]int, hosts), behind: -1,
	}
	if l.rand.IntN(4) == 0 {
		l.behind = l.rand.IntN(hosts)
	}
	if l.rand.IntN(2) == 0 {
		l.hoards, l.erases = 16, l.rand.IntN(2) == 0
	}
	return l
}

func (l *sealedLife) hidden(namespace string) string { return l.stages[0].For(namespace).Name() }

func (l *sealedLife) play() {
	for n := range l.hoards {
		l.put(l.hosts[0], hoarded(n))
	}
	l.settle()
	l.readAll()
	l.liar.be(0.3, 0.1)
	l.liar.omit(l.hidden(deletable), 0.3)
	cloned, lost := l.rand.IntN(3*sealedSteps), l.rand.IntN(sealedSteps)
	for step := range sealedSteps {
		if step == cloned {
			n := l.rand.IntN(len(l.hosts))
			l.clone(l.hosts[n], l.stages[l.stage[n]])
			l.stage = append(l.stage, l.stage[n])
		}
		if step == lost {
			l.loseHoard()
		}
		l.step(l.rand.IntN(len(l.hosts)))
		time.Sleep(time.Duration(l.rand.ExpFloat64() * float64(400*time.Millisecond)))
	}
	l.heal()
}

func (l *sealedLife) step(n int) {
	h, id, of := l.hosts[n], enduring[l.rand.IntN(len(enduring))], deletables(l.rand.IntN(3))
	switch l.rand.IntN(24) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		l.put(h, id)
	case 8, 9:
		l.put(h, of)
	case 10:
		l.remove(h, of)
	case 11:
		l.liar.lose(l.hidden(deletable), 0.3)
	case 12, 13:
		l.list(h, []string{"canary-n", "canary-m", deletable, hoard}[l.rand.IntN(4)])
	case 14, 15:
		l.rotate()
	case 16:
		l.again(h, l.stages[l.stage[n]], l.rand.IntN(2) == 0)
	case 17:
		l.get(h, id)
	case 18:
		l.insist(h, of)
	case 19:
		if l.hoards > 0 {
			l.insist(h, hoarded(l.rand.IntN(l.hoards)))
		}
	default:
		l.insist(h, id)
	}
}

// rotate has one of the hosts that are furthest behind take the next step of a rotation.
func (l *sealedLife) rotate() {
	next := -1
	for n, stage := range l.stage {
		if n != l.behind && (next < 0 || stage < l.stage[next]) {
			next = n
		}
	}
	if l.stage[next]++; l.stage[next] == len(l.stages) {
		l.stage[next]--
		return
	}
	l.again(l.hosts[next], l.stages[l.stage[next]], l.rand.IntN(2) == 0)
}

// readAll has all hosts read all that upstream may lose.
func (l *sealedLife) readAll() {
	for _, h := range l.hosts {
		for n := range l.hoards {
			l.insist(h, hoarded(n))
		}
		for n := range 3 {
			l.insist(h, deletables(n))
		}
	}
}

func (l *sealedLife) loseHoard() {
	if l.erases {
		l.liar.lose(l.hidden(hoard), 1)
	} else {
		l.liar.omit(l.hidden(hoard), 0.9)
	}
}

// heal ends the lies, gives all hosts the same key file, and has upstream get back what it has lost.
func (l *sealedLife) heal() {
	l.liar.be(0, 0)
	l.liar.omit(l.hidden(hoard), 0)
	l.liar.omit(l.hidden(deletable), 0)
	newest := l.stages[slices.Max(l.stage)]
	for _, h := range l.hosts {
		l.again(h, newest, false)
	}
	l.settle()
	time.Sleep(lateWindow)
	l.readAll()
	noticed := false
	for _, h := range l.hosts {
		for _, namespace := range h.lacking() {
			noticed = noticed || namespace == hoard
			if r := h.node.do(http.MethodPost, "/_botwired/restore?timeout=1m&namespace="+namespace, ""); r.Code != http.StatusOK {
				l.t.Errorf("restoring %s: %d %s", namespace, r.Code, r.Body)
			}
		}
	}
	if l.hoards > 0 && l.erases && !noticed {
		l.t.Error("nobody has noticed that upstream has lost all of a namespace")
	}
	for _, h := range l.hosts { // each older version is repaired a few times in a life
		l.again(h, newest, false)
	}
	l.agree()
	for _, h := range l.hosts {
		if slices.Contains(h.lacking(), hoard) {
			l.t.Errorf("%s says that upstream lacks what it has", h.with.name)
		}
	}
}

// lacking returns the namespaces of which upstream has lost entries, as the host says.
func (h *host) lacking() (namespaces []string) {
	var doc api.Status
	if err := json.Unmarshal(h.node.do(http.MethodGet, "/_botwired/status", "").Body.Bytes(), &doc); err != nil {
		panic(err)
	}
	for _, n := range doc.Namespaces {
		if n.DataLoss != nil {
			namespaces = append(namespaces, n.Namespace)
		}
	}
	return namespaces
}
