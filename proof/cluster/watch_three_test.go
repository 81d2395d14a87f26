package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

func onThree(o *natskv.Options) { o.Replicas = 3 }

// Over three servers, a view stays sound while nothing happens, and a host that reaches only a leader
// that the others have deposed does not take its word for the truth.
func TestWatchDeposedLeader(t *testing.T) {
	s, err := Start(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	near, err := s.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	far, err := s.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := engineOf(t, "h1", urls(near), onThree)
	b := engineOf(t, "h2", urls(far), onThree)
	sounds(t, a)
	sounds(t, b)
	soundFor(t, a, 5*time.Second)
	leader, err := s.Leader(t.Context(), "KV_memory")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if i == leader {
			far.Part(i)
		} else {
			near.Part(i)
		}
	}
	until(t, func() bool { return reaches(near, a, leader) })
	sounds(t, a)
	s.Part(leader)
	cut := time.Now()
	wrote := time.Time{}
	for wrote.IsZero() {
		over, _ := b.Known(entry("k"))
		at := time.Now()
		_, err := b.Swap(t.Context(), putting("k", "v", 1000, 1, over))
		var conflict *upstream.Conflict
		if err == nil || errors.As(err, &conflict) {
			wrote = at
		}
		checkTruth(t, a, wrote)
	}
	t.Logf("the others took a write %v after the cut", time.Since(cut))
	until(t, func() bool { checkTruth(t, a, wrote); return !sound(a) })
	t.Logf("not sound %v after the cut: %s", time.Since(cut), a.State().Reason)
	s.Heal()
	near.Heal()
	far.Heal()
	until(t, func() bool { _, present, _ := a.Entry(entry("k")); return present && sound(a) })
}

// urls are the servers' addresses, as the client reaches them.
func urls(c *Client) []string {
	all := strings.Split(strings.TrimPrefix(c.URL(), "nats://"), ",")
	for i := range all {
		all[i] = "nats://" + all[i]
	}
	return all
}

// reaches reports whether the engine is connected to the server.
func reaches(c *Client, e *natskv.Engine, server int) bool {
	return "nats://"+c.links[server].Address() == e.State().Server
}

// checkTruth fails if a view without the write claims to be complete up to a later moment.
func checkTruth(t *testing.T, e *natskv.Engine, wrote time.Time) {
	t.Helper()
	_, present, _ := e.Entry(entry("k"))
	if asOf, _, ok := e.CaughtUp(); ok && !present && !wrote.IsZero() && asOf.After(wrote) {
		t.Errorf("a view without a write claims to be complete up to %v after it", asOf.Sub(wrote))
	}
}
