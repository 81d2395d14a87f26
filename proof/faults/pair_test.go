//go:build faults && linux

package faults

import (
	"fmt"
	"testing"
	"time"
)

// author is one of several daemons, with the number of its last write to each key.
type author struct {
	*daemon
	name string
	last []int
}

func pairKey(i int) string { return fmt.Sprintf("shared-%d", i) }

func (a *author) text(i int) string { return fmt.Sprintf("%s wrote %d", a.name, a.last[i]) }

// write gives a key its next value and reads it back: a caller of this daemon must see
// it, even while upstream is down.
func (a *author) write(i int, mustSee bool) error {
	a.last[i]++
	status, answer, err := a.put(pairKey(i), a.text(i))
	if err != nil || status != 200 {
		return fmt.Errorf("%s: PUT: %d %.200s %w", a.name, status, answer, err)
	}
	return a.sees(i, mustSee)
}

func (a *author) sees(i int, own bool) error {
	got, err := a.get(pairKey(i))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", a.name, pairKey(i), err)
	}
	if own && got != a.text(i) {
		return fmt.Errorf("%s: %s is %q, want %q", a.name, pairKey(i), got, a.text(i))
	}
	return nil
}

// Two daemons, as on two machines, write the same entries. Each reads its own writes
// while they are pending, both drain, and both and upstream end up with the same
// (contract 6, 17, 18).
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	const keys, fresh = 20, time.Second
	up := newUpstream(t)
	settings := []string{"--cache-fresh-for", fresh.String(), "--cache-stale-while-revalidate", "0s"}
	authors := []*author{
		{daemon: start(t, t.TempDir(), up, settings...), name: "one", last: make([]int, keys)},
		{daemon: start(t, t.TempDir(), up, settings...), name: "two", last: make([]int, keys)},
	}
	writeInTurns(t, authors, 5, false)
	up.down(t)
	writeInTurns(t, authors, 5, true)
	for _, a := range authors {
		if n, err := a.pending(); err != nil || n != keys {
			t.Errorf("%s: %d pending, want %d (%v)", a.name, n, keys, err)
		}
		for i := range keys {
			if err := a.sees(i, true); err != nil {
				t.Error(err)
			}
		}
	}
	up.up(t)
	for _, a := range authors {
		a.drained(t, drainLimit)
	}
	time.Sleep(fresh + 100*time.Millisecond) // all copies are stale now: upstream is asked
	agree(t, authors, newClient(t, up.url()))
	for _, a := range authors {
		a.terminate(t)
	}
}

func writeInTurns(t *testing.T, authors []*author, rounds int, mustSee bool) {
	t.Helper()
	errs := make(chan error, len(authors))
	for _, a := range authors {
		go func() {
			var err error
			for n := range rounds * len(a.last) {
				if err = a.write(n%len(a.last), mustSee); err != nil {
					break
				}
			}
			errs <- err
		}()
	}
	for range authors {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// agree checks that upstream has one of the last writes of each key, and that all
// daemons say so.
func agree(t *testing.T, authors []*author, upstream *client) {
	t.Helper()
	wins := make(map[string]int)
	for i := range authors[0].last {
		truth, err := upstream.get(pairKey(i))
		if err != nil {
			t.Fatal(err)
		}
		known := false
		for _, a := range authors {
			if truth == a.text(i) {
				known = true
				wins[a.name]++
			}
			if got, err := a.get(pairKey(i)); err != nil || got != truth {
				t.Errorf("%s: %s is %q, and upstream says %q (%v)", a.name, pairKey(i), got, truth, err)
			}
		}
		if !known {
			t.Errorf("upstream: %s is %q, which is nobody's last write", pairKey(i), truth)
		}
	}
	t.Logf("last writer: %v", wins)
}
