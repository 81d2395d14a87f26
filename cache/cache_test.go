package cache_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, memory int64) *cache.Cache {
	t.Helper()
	c, err := cache.New(memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func item(body string) cache.Item { return cache.Item{Body: []byte(body)} }

var (
	entry   = cache.Key{Namespace: "ns", Key: "key"}
	listing = cache.Key{Namespace: "ns", Limit: 10}
)

// keep puts an answer repeatedly until Ristretto keeps it.
func keep(t testing.TB, c *cache.Cache, k cache.Key, body string) {
	t.Helper()
	for range 1_000_000 {
		c.Put(k, c.Generation(k), item(body))
		if got, _ := c.Get(k); got != nil && string(got.Body) == body {
			return
		}
	}
	t.Fatalf("%v was never kept", k)
}

func mustMiss(t *testing.T, c *cache.Cache, k cache.Key) {
	t.Helper()
	if got, _ := c.Get(k); got != nil {
		t.Errorf("%v is %q", k, got.Body)
	}
}

// Ristretto stores an answer some time after Put. An empty cache of this size has room for all of
// these.
func TestAwait(t *testing.T) {
	c := open(t, 1<<20)
	for i := range 500 {
		k := cache.Key{Namespace: "ns", Key: fmt.Sprint(i)}
		c.Put(k, c.Generation(k), cache.Item{})
		c.Await()
		if got, _ := c.Get(k); got == nil {
			t.Fatalf("answer %d is not there", i)
		}
	}
}

func TestKeptUntilChanged(t *testing.T) {
	c := open(t, 1<<20)
	mustMiss(t, c, entry)
	keep(t, c, entry, "1")
	generation := c.Generation(entry)
	if c.Generation(entry) != generation {
		t.Error("changed by itself")
	}
	c.Changed("ns", "key")
	mustMiss(t, c, entry)
	if c.Generation(entry) == generation {
		t.Error("did not change")
	}
	keep(t, c, entry, "2")
	keep(t, c, entry, "3")
}

// contract 8
func TestAnswerOfAnOldGenerationIsNeverReturned(t *testing.T) {
	c := open(t, 1<<20)
	old := c.Generation(entry)
	c.Changed("ns", "key")
	for range 10_000 {
		if got := c.Put(entry, old, item("old")); string(got.Body) != "old" {
			t.Fatalf("Put returned %q", got.Body)
		}
		mustMiss(t, c, entry)
	}
	keep(t, c, entry, "new")
	c.Put(entry, old, item("old"))
	if got, _ := c.Get(entry); got == nil || string(got.Body) != "new" {
		t.Errorf("the old answer pushed out the new one: %+v", got)
	}
}

func TestAbsenceIsAnAnswer(t *testing.T) {
	c := open(t, 1<<20)
	for range 1_000_000 {
		c.Put(entry, c.Generation(entry), cache.Item{ConfirmedAt: time.Unix(1, 0)})
		if got, _ := c.Get(entry); got != nil {
			if got.Body != nil || got.ConfirmedAt.Unix() != 1 {
				t.Errorf("answer is %+v", got)
			}
			return
		}
	}
	t.Error("was never kept")
}

func TestListingsAreKeptByLimit(t *testing.T) {
	c := open(t, 1<<20)
	other := cache.Key{Namespace: "ns", Limit: 11}
	elsewhere := cache.Key{Namespace: "elsewhere", Limit: 10}
	keep(t, c, listing, "ten")
	keep(t, c, other, "eleven")
	keep(t, c, elsewhere, "elsewhere")
	if got, _ := c.Get(listing); string(got.Body) != "ten" {
		t.Errorf("answer is %q", got.Body)
	}
	c.Changed("ns", "key") // an entry's change also changes its listings
	mustMiss(t, c, listing)
	mustMiss(t, c, other)
	if got, _ := c.Get(elsewhere); got == nil {
		t.Error("another namespace's listing went too")
	}
	keep(t, c, entry, "entry")
	keep(t, c, listing, "ten")
	c.Changed("ns", "") // a listing's change does not change an entry
	mustMiss(t, c, listing)
	if got, _ := c.Get(entry); got == nil {
		t.Error("the entry went too")
	}
}

// Keys with the same concatenated parts are different.
func TestKeysDoNotRunTogether(t *testing.T) {
	c := open(t, 1<<20)
	keys := []cache.Key{
		{Namespace: "ab", Key: "c"}, {Namespace: "a", Key: "bc"}, {Namespace: "abc"}, {Key: "abc"},
		{Namespace: "abc", Limit: 1}, {Namespace: "abc", Limit: 256},
	}
	for i, k := range keys {
		keep(t, c, k, fmt.Sprint(i))
	}
	for i, k := range keys {
		if got, _ := c.Get(k); got != nil && string(got.Body) != fmt.Sprint(i) {
			t.Errorf("%+v is %q", k, got.Body)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	const memory, size = 1 << 20, 10 << 10
	c := open(t, memory)
	body := make([]byte, size)
	key := func(i int) cache.Key { return cache.Key{Namespace: "ns", Key: fmt.Sprint(i)} }
	for i := range 2000 {
		c.Put(key(i), c.Generation(key(i)), cache.Item{Body: body})
	}
	keep(t, c, entry, "the last one")
	kept := 0
	for i := range 2000 {
		if got, _ := c.Get(key(i)); got != nil {
			kept++
		}
	}
	if kept == 0 || kept > memory/size {
		t.Errorf("%d answers of %d bytes are kept in %d", kept, size, memory)
	}
}

func TestTooLittleMemoryIsAnError(t *testing.T) {
	if _, err := cache.New(0); err == nil {
		t.Error("no error")
	}
}

// The reader's order: generation, state, Put. The writer's order: state, Changed. Once Changed has
// returned, no reader finds an older state.
func TestNothingOlderThanTheLastChange(t *testing.T) {
	c := open(t, 1<<20)
	var state atomic.Int64
	var stop atomic.Bool
	var fillers sync.WaitGroup
	for range 4 {
		fillers.Go(func() {
			for !stop.Load() {
				g := c.Generation(entry)
				c.Put(entry, g, item(fmt.Sprint(state.Load())))
			}
		})
	}
	hits := 0
	for i := 0; i < 20_000 || (hits == 0 && i < 20_000_000); i++ { // on a busy machine, no filler may run at first
		state.Store(int64(i))
		c.Changed("ns", "key")
		for range 3 {
			if got, _ := c.Get(entry); got != nil {
				hits++
				if string(got.Body) != fmt.Sprint(i) {
					t.Fatalf("found %q after the change to %d", got.Body, i)
				}
			}
		}
	}
	stop.Store(true)
	fillers.Wait()
	if hits == 0 {
		t.Error("the test saw no hit")
	}
}

func BenchmarkGet(b *testing.B) {
	for name, k := range map[string]cache.Key{"entry": entry, "listing": listing} {
		b.Run(name, func(b *testing.B) {
			c := open(b, 1<<20)
			keep(b, c, k, "a value of some length")
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.Get(k)
				}
			})
		})
	}
}

// A change elsewhere makes stored answers old, but readers in flight keep their leases.
func TestAChangeElsewhereRevokesNoLease(t *testing.T) {
	c, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	entry, listing := cache.Key{Namespace: "n", Key: "k"}, cache.Key{Namespace: "n", Limit: 10}
	for _, k := range []cache.Key{entry, listing} {
		c.Put(k, c.Generation(k), cache.Item{Body: []byte("v")})
	}
	c.Await()
	lease := c.Lease(entry)
	defer lease.Release()
	c.ChangedElsewhere("n", "k")
	for _, k := range []cache.Key{entry, listing} {
		if item, _ := c.Get(k); item != nil {
			t.Errorf("%+v still has its answer", k)
		}
	}
	if lease.Revoked() {
		t.Error("the lease is revoked")
	}
}
