package journal_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// walk returns the keys of the test's namespace, in steps of most keys.
func walk(t testing.TB, j *journal.Journal, most int) (names []string, l journal.Listing) {
	t.Helper()
	for last := ""; ; {
		keys, listed, err := j.Keys.After("ns", last, most)
		no(t, err)
		for _, k := range keys {
			names = append(names, k.Key)
		}
		if l = listed; len(keys) < most {
			return names, l
		}
		last = keys[most-1].Key
	}
}

// known makes an entry known, in one of several ways.
func known(t testing.TB, j *journal.Journal, id journal.ID, way int) {
	t.Helper()
	if way&1 != 0 {
		_, err := j.Fill(id, observed("theirs"), always)
		no(t, err)
	}
	if way&2 != 0 {
		put(t, j, id, "mine")
	}
	if way&4 != 0 {
		put(t, j, id, "mine, too")
	}
}

// A walk meets every key with a pending write, a copy or a row, once and in order, for any step size.
// The records of pending writes are sorted differently.
func TestKeysInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		j := open(t, vfs.NewMem())
		var want []string
		var rows []journal.Row
		for range 40 {
			name := make([]byte, 1+random.IntN(5))
			for i := range name {
				name[i] = "-./0a_"[random.IntN(6)]
				if name[i] == '/' { // keys contain no slash
					name[i] = '.'
				}
			}
			k, way := key("%s", name), random.IntN(8)
			known(t, j, k, way)
			if way == 0 {
				rows = append(rows, journal.Row{Key: k.Key, ListBytes: 1, UpdatedAt: 1})
			}
			want = append(want, k.Key)
		}
		listing := j.BeginListing("ns")
		no(t, listing.Commit(rows, false))
		for _, other := range []string{"n", "ns-", "ns0", "nsa"} {
			known(t, j, journal.ID{Namespace: other, Key: "a"}, 3)
		}
		slices.Sort(want)
		want = slices.Compact(want)
		for _, most := range []int{1, 2, 7, 1000} {
			got, l := walk(t, j, most)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("round %d, %d at a time (-want +got):\n%s", round, most, diff)
			}
			if l.Complete || time.Since(l.FetchedAt) > time.Minute {
				t.Errorf("the listing is %+v", l)
			}
		}
	}
}

// A walk meets a write that settles meanwhile, at any position.
func TestKeysWhileWritesSettle(t *testing.T) {
	j := open(t, vfs.NewMem())
	const n = 30
	for i := range n {
		put(t, j, key("k%02d", i), "v")
	}
	var got []string
	for last := ""; ; {
		keys, _, err := j.Keys.After("ns", last, 1)
		no(t, err)
		if len(keys) == 0 {
			break
		}
		last = keys[0].Key
		got = append(got, last)
		if next := key("k%02d", len(got)); len(got) < n {
			settle(t, j, next)
		}
	}
	if len(got) != n {
		t.Errorf("met %d of %d: %v", len(got), n, got)
	}
}

// A listing confirms the copies for which it shows upstream's own time, and no others.
func TestKeysThatAListingConfirms(t *testing.T) {
	j := open(t, vfs.NewMem())
	for i, o := range []*journal.Observation{observed("same"), observed("other time"), observed("size"), observed("unlisted")} {
		_, err := j.Fill(key("k%d", i), o, always)
		no(t, err)
	}
	put(t, j, key("k4"), "mine") // upstream has not shown it
	settle(t, j, key("k4"))
	if _, l := walk(t, j, 10); !l.FetchedAt.IsZero() {
		t.Errorf("there is a listing: %+v", l)
	}
	listing := j.BeginListing("ns")
	no(t, listing.Commit([]journal.Row{
		{Key: "k0", ListBytes: 4, UpdatedAt: 20}, {Key: "k1", ListBytes: 10, UpdatedAt: 21},
		{Key: "k2", ListBytes: 5, UpdatedAt: 20}, {Key: "k4", ListBytes: 4, UpdatedAt: 30}, {Key: "k5", ListBytes: 1, UpdatedAt: 30},
	}, false))
	keys, _, err := j.Keys.After("ns", "", 10)
	no(t, err)
	got := fmt.Sprint(keys)
	if want := "[{k0 true} {k1 false} {k2 false} {k3 false} {k4 false} {k5 false}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
