package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// shared are the entries that several hosts write.
var shared = []journal.ID{
	{Namespace: namespaces[0], Key: "canary-x"}, {Namespace: namespaces[0], Key: "canary-y"}, {Namespace: namespaces[0], Key: "canary-z"},
}

// deeds are what one host has written to one entry, the newest last.
type deeds []deedDone

type deedDone struct {
	host  int
	at    time.Time // by the one clock that all hosts could agree on
	value string
}

// realm is several hosts in front of one upstream, all of which write the same entries, and
// what they have written.
type realm struct {
	up     *service
	sealed bool // all hosts seal
	rng    *rand.Rand
	hosts  []*host
	wrote  map[journal.ID]deeds
	count  int
}

// inRealm runs a test in a bubble and a realm of its own for each of many seeds.
func inRealm(t *testing.T, rounds int, test func(r *realm) error) {
	t.Helper()
	for seed := range uint64(rounds) {
		synctest.Test(t, func(t *testing.T) {
			r := &realm{sealed: seed%3 == 0, rng: rand.New(rand.NewPCG(seed, 17)), wrote: make(map[journal.ID]deeds)}
			r.up = newServiceOf(r.settings())
			err := test(r)
			for _, h := range r.hosts {
				err = errors.Join(err, h.node.end())
			}
			r.up.close()
			if r.sealed {
				err = errors.Join(err, r.up.veil.watch.Err())
			}
			if err != nil {
				t.Fatalf("seed %d: %v\nupstream was asked:\n  %s", seed, err, strings.Join(r.up.log, "\n  "))
			}
		})
	}
}

func (r *realm) settings() settings {
	with := usual
	if r.sealed {
		seals(&with)
	}
	return with
}

// join adds a host whose clock is skew ahead of upstream's, with the disk that it is given.
func (r *realm) join(fs *vfs.MemFS, skew time.Duration, adjust ...func(*settings)) (*host, error) {
	h := &host{up: r.up, with: r.settings(), fs: fs, last: make(map[journal.ID]string)}
	h.with.name, h.with.skew, h.with.link = strconv.Itoa(len(r.hosts)), skew, &link{}
	for _, a := range adjust {
		a(&h.with)
	}
	if err := h.start(); err != nil {
		return nil, err
	}
	r.hosts = append(r.hosts, h)
	return h, nil
}

// cut takes a host's way to upstream away, or gives it back.
func (h *host) cut(cut bool) {
	h.with.link.cut.Store(cut)
	if cut {
		h.node.hangUp()
	}
}

// put has a host write a value that nobody has written before.
func (r *realm) put(n int, id journal.ID) error {
	r.count++
	d := deedDone{n, time.Now(), fmt.Sprintf("canary-%d", r.count)}
	if err := r.hosts[n].put(id, d.value); err != nil {
		return err
	}
	r.wrote[id] = append(r.wrote[id], d)
	return nil
}

// settle waits until nothing is pending at the given hosts.
func (r *realm) settle(hosts ...*host) error {
	for end := time.Now().Add(patience); pendingOf(hosts) > 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			return fmt.Errorf("contract 18: %d are pending at the end", pendingOf(hosts))
		}
	}
	return nil
}

// insists has a host ask upstream.
func (h *host) insists(id journal.ID) (value string, err error) {
	r := h.node.do(http.MethodGet, path(id), "", "Cache-Control", "no-cache")
	if r.Code == http.StatusNotFound {
		return "", nil
	}
	value, ok := valueIn(r)
	if !ok {
		return "", fmt.Errorf("GET %s was answered %d: %s", id, r.Code, r.Body)
	}
	return value, nil
}

// losers returns the values of an entry that have lost a conflict at a host, each with that of the state that has beaten it, as
// far as the history tells: "" for a delete. There must be no dead letters.
func (h *host) losers(id journal.ID) (map[string]string, error) {
	if letters, err := h.node.journal.DeadLetters(0, 1); err != nil || len(letters) > 0 {
		return nil, fmt.Errorf("the dead letters are %+v (%w)", letters, err)
	}
	lost, err := h.node.lost(id)
	out := make(map[string]string)
	for _, l := range lost {
		out[l.Value] = l.winner
	}
	return out, err
}

// loser is a version that has lost a conflict.
type loser struct {
	journal.Past
	winner string // the value of the state that has beaten it, as far as the history tells
	known  bool   // it does
}

// lost returns the versions of an entry that have lost a conflict, the newest first.
func (n *node) lost(id journal.ID) (out []loser, err error) {
	versions, err := n.journal.History.Of(id, 10_000)
	for i, v := range versions {
		if v.State != journal.PastLost {
			continue
		}
		l := loser{Past: v}
		if v.Apart { // this host's write before it was about to overwrite it
			for _, by := range versions[i+1:] {
				if !by.Shown && !by.Apart {
					l.winner, l.known = by.Value, true
					break
				}
			}
		} else { // what upstream had shown last when it lost; a nearly full disk does not keep that
			for _, by := range versions {
				if by.Shown && !by.Apart && v.Seq < by.Seq && by.Seq <= v.Order {
					l.winner, l.known = by.Value, true
					break
				}
			}
		}
		out = append(out, l)
	}
	return out, err
}

// unkept returns an error if a host does not keep what it has overwritten.
func (r *realm) unkept() (err error) {
	for _, h := range r.hosts {
		err = errors.Join(err, r.up.unkept(h.node, nil))
	}
	return err
}

// judge compares upstream and all hosts with what was written since the contest began: the
// latest write by time is what all hold, and the last write of each other host, which nobody
// had read, is listed with its value by some host, and all keep what they have overwritten (contract 17).
func (r *realm) judge(contest map[journal.ID]deeds) error {
	if err := r.unkept(); err != nil {
		return err
	}
	holds := r.up.snapshot()
	for _, id := range shared {
		all := r.wrote[id]
		if len(all) == 0 {
			continue
		}
		last := all[len(all)-1]
		if holds[id] != last.value {
			return fmt.Errorf("contract 17: upstream holds %q of %s, and the later write is %+v: %s", holds[id], id, last, all)
		}
		listed := make(map[string]string)
		for n, h := range r.hosts {
			if value, err := h.insists(id); err != nil || value != last.value {
				return fmt.Errorf("contract 17: host %d holds %q of %s, and the later write is %+v (%w)", n, value, id, last, err)
			}
			lost, err := h.losers(id)
			if err != nil {
				return err
			}
			for value, winner := range lost {
				listed[value] = winner
			}
		}
		for _, d := range contest[id].losers(last) {
			if winner, ok := listed[d.value]; !ok || winner == "" || winner == d.value {
				return fmt.Errorf("contract 17: %s of host %d to %s is lost: listed are %v, and the writes are %s", d.value, d.host, id, listed, all)
			}
		}
	}
	return nil
}

// losers are the last writes of all hosts but the winner's.
func (ds deeds) losers(winner deedDone) (out deeds) {
	newest := make(map[int]deedDone)
	for _, d := range ds {
		newest[d.host] = d
	}
	for n, d := range newest {
		if n != winner.host {
			out = append(out, d)
		}
	}
	return out
}

func (ds deeds) String() string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "host %d wrote %s at %s; ", d.host, d.value, d.at.Format("15:04:05.000"))
	}
	return b.String()
}

// apart is the least time between two writes that hosts make to one entry, so that there is no
// question which one is the later: a host that has had only a Date from upstream knows
// upstream's clock to some two seconds.
const apart = 4 * time.Second

// contend has hosts write to the shared entries for a while, and now and then crash or restart.
func (r *realm) contend(events int) error {
	for range events {
		time.Sleep(apart + time.Duration(r.rng.IntN(20_000))*time.Millisecond)
		n := r.rng.IntN(len(r.hosts))
		if r.rng.IntN(10) == 0 {
			if err := r.hosts[n].again(r.rng.IntN(2) == 0, r.rng.Int64()); err != nil {
				return err
			}
			// A write that waits for the window of an earlier process counts as made when it arrives (contract 17).
			time.Sleep(requestTimeout + lateWindow)
			continue
		}
		if err := r.put(n, shared[r.rng.IntN(len(shared))]); err != nil {
			return err
		}
	}
	return nil
}

// since returns a function that returns what was written since.
func (r *realm) since() func() map[journal.ID]deeds {
	before := make(map[journal.ID]int)
	for id, all := range r.wrote {
		before[id] = len(all)
	}
	return func() map[journal.ID]deeds {
		contest := make(map[journal.ID]deeds)
		for id, all := range r.wrote {
			contest[id] = all[before[id]:]
		}
		return contest
	}
}

// valueIn is the value in the answer to a GET; ok is false if it is another answer.
func valueIn(r *httptest.ResponseRecorder) (value string, ok bool) {
	var doc struct{ Value string }
	err := json.Unmarshal(r.Body.Bytes(), &doc)
	return doc.Value, err == nil && r.Code == http.StatusOK
}
