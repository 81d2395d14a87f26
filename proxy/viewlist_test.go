package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

func keysIn(t *testing.T, w *httptest.ResponseRecorder) (keys []string) {
	t.Helper()
	wantStatus(t, w, http.StatusOK)
	var doc struct{ Keys []wire.Item }
	decode(t, w, &doc)
	for _, item := range doc.Keys {
		keys = append(keys, item.Key)
	}
	return keys
}

// contract 10: a LIST comes from the view, with the pending writes laid over it, however many keys there are.
func TestListIsMadeOfTheView(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		if keys := keysIn(t, s.get("/memory/n")); len(keys) != 0 {
			t.Errorf("an empty namespace lists %v", keys)
		}
		for i := range 1500 {
			s.upstream.set(id("n", fmt.Sprint(i)), "v")
		}
		time.Sleep(time.Second)
		s.put(id("n", "pending"), "mine")
		s.put(id("n", "700"), "mine")
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/1499", ""), http.StatusOK)
		s.put(id("n", "settled"), "mine")
		s.settle(id("n", "settled"))
		time.Sleep(time.Second)
		s.upstream.set(id("n", "newest"), "v")
		want := []string{"newest", "settled", "700", "pending", "1498", "1497"}
		w := s.get("/memory/n?limit=6")
		if diff := cmp.Diff(want, keysIn(t, w)); diff != "" {
			t.Error(diff)
		}
		wantHeader(t, w, "Cache-Status", hit)
		wantHeader(t, w, "Botwired-List", "")
		if keys := keysIn(t, s.get("/memory/n?limit=1000")); len(keys) != 1000 {
			t.Errorf("%d keys", len(keys))
		}
		s.settle(id("n", "1499"))
		s.settle(id("n", "700"))
		s.settle(id("n", "pending"))
		if diff := cmp.Diff(want, keysIn(t, s.get("/memory/n?limit=6"))); diff != "" {
			t.Errorf("once they are settled: %s", diff)
		}
		time.Sleep(time.Hour)
		wantHeader(t, s.get("/memory/n?limit=6"), "Cache-Status", hit)
		wantAsked(t, s)
	})
}

// A broken view still lists, and has what upstream lists once it was asked.
func TestAListingOfABrokenView(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.upstream.set(id("n", "a"), "v")
		time.Sleep(time.Second)
		view.breakOff()
		s.upstream.set(id("n", "b"), "v")
		if diff := cmp.Diff([]string{"a"}, keysIn(t, s.get("/memory/n"))); diff != "" {
			t.Error(diff)
		}
		wantAsked(t, s)
		time.Sleep(time.Hour)
		w := s.get("/memory/n")
		if diff := cmp.Diff([]string{"b", "a"}, keysIn(t, w)); diff != "" {
			t.Error(diff)
		}
		wantHeader(t, w, "Cache-Status", "botwired; fwd=stale")
		s.upstream.setDown(true)
		time.Sleep(time.Hour)
		wantHeader(t, s.get("/memory/n"), "Cache-Status", "botwired; hit; detail=stale-if-error")
		view.catchUp()
		w = s.get("/memory/n")
		wantHeader(t, w, "Cache-Status", hit)
		if diff := cmp.Diff([]string{"b", "a"}, keysIn(t, w)); diff != "" {
			t.Error(diff)
		}
	})
}

// contract 7: the view has seen more than up to when it is known to be complete. Once it breaks, no read
// takes back a state that it has shown, even if upstream was asked for its list in between.
func TestABrokenViewTakesNothingBack(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		view.lag() // complete up to now
		time.Sleep(time.Millisecond)
		s.upstream.set(id("n", "a"), "v")
		wantStatus(t, s.get("/memory/n", "Cache-Control", "no-cache"), http.StatusOK)
		time.Sleep(time.Millisecond)
		view.lags = false
		s.upstream.set(id("n", "b"), "v")
		want := []string{"b", "a"}
		if diff := cmp.Diff(want, keysIn(t, s.get("/memory/n"))); diff != "" {
			t.Error(diff)
		}
		view.mu.Lock()
		view.caughtUp = false
		view.mu.Unlock()
		s.upstream.setDown(true)
		s.cache.Changed("n", "b")
		if diff := cmp.Diff(want, keysIn(t, s.get("/memory/n"))); diff != "" {
			t.Error(diff)
		}
		wantStatus(t, s.get("/memory/n/b"), http.StatusServiceUnavailable)
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/b", ""), http.StatusOK)
	})
}

// With a view, a namespace is listed only for a restart: at first, when the view has caught up again, and
// about once an hour.
func TestNamespacesAreListedSeldomWithAView(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.run()
		use := func(minutes int) int {
			for range minutes {
				time.Sleep(time.Minute)
				wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
			}
			return s.listed()["n"]
		}
		if n := use(10); n != 1 {
			t.Errorf("listed %d times at first", n)
		}
		if n := use(180); n < 2 || n > 4 {
			t.Errorf("listed %d times in three hours", n)
		}
		view.breakOff()
		if n := use(5); n < 5 {
			t.Errorf("listed %d times in 5 minutes without a view that has caught up", n)
		}
		view.catchUp()
		if n := use(10); n < 1 || n > 2 {
			t.Errorf("listed %d times once the view has caught up", n)
		}
	})
}

// With prefetch, other hosts' new entries are fetched before anybody reads them.
func TestPrefetchingWithAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWatched(t, func(_ *journal.Options, o *proxy.Options) {
			o.Prefetch = func(namespace string) bool { return namespace == "all" }
		})
		s.run()
		s.upstream.set(id("all", "k"), "v")
		s.upstream.set(id("some", "k"), "v")
		synctest.Wait()
		wantAsked(t, s, question{ID: id("all", "k")})
		wantHeader(t, s.get("/memory/all/k"), "Cache-Status", hit)
	})
}

// The list of known entries, by key, comes from the view too.
func TestEntriesOfTheView(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		for _, key := range []string{"b", "a2", "a1", "gone"} {
			s.upstream.set(id("n", key), "v")
		}
		s.upstream.remove(id("n", "gone"))
		s.put(id("n", "a3"), "mine")
		s.put(id("n", "a1"), "mine")
		var doc struct {
			Entries []struct {
				Key, State string
				Seq        *uint64
			}
			Next     *string
			Complete bool
		}
		decode(t, s.get("/_botwired/entries?namespace=n&prefix=a&limit=2"), &doc)
		if len(doc.Entries) != 2 || doc.Entries[0].Key != "a1" || doc.Entries[0].State != "pending" ||
			doc.Entries[1].Key != "a2" || doc.Entries[1].Seq != nil || doc.Next == nil || !doc.Complete {
			t.Errorf("%+v", doc)
		}
		decode(t, s.get("/_botwired/entries?namespace=n&prefix=a&after=a2"), &doc)
		if len(doc.Entries) != 1 || doc.Entries[0].Key != "a3" || doc.Next != nil {
			t.Errorf("%+v", doc)
		}
		wantAsked(t, s)
	})
}

// A namespace with data loss is answered from its copies, not from the view.
func TestASuspectNamespaceIsNotWhatTheViewShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWatched(t, func(o *journal.Options, _ *proxy.Options) {
			o.LossLimit = journal.LossLimit{Entries: 3, Share: 0.5}
		})
		for i := range 5 {
			s.learn(id("n", fmt.Sprint(i)), "v")
		}
		wantStatus(t, s.get("/memory/n", "Cache-Control", "no-cache"), http.StatusOK)
		for i := range 5 {
			s.upstream.remove(id("n", fmt.Sprint(i)))
		}
		s.get("/memory/n", "Cache-Control", "no-cache")
		if _, suspect := s.journal.Trust.Suspect("n"); !suspect {
			t.Fatal("the namespace is not suspect")
		}
		wantValue(t, s.get("/memory/n/1"), "v")
		if keys := keysIn(t, s.get("/memory/n")); len(keys) != 5 {
			t.Errorf("it lists %v", keys)
		}
	})
}

// Reads and lists agree with a model while the view has caught up, in any order of events.
func TestAViewAgainstAModel(t *testing.T) {
	for seed := range uint64(20) {
		watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
			rng := rand.New(rand.NewPCG(seed, 1))
			model, mine := map[string]string{}, map[string]bool{} // what readers see, and what is pending here
			var steps []string
			for step := range 150 {
				key, value := fmt.Sprint("k", rng.IntN(5)), fmt.Sprint("v", step)
				k := id("n", key)
				act := rng.IntN(9)
				steps = append(steps, fmt.Sprint(act, key))
				time.Sleep(time.Duration(rng.IntN(3_000)) * time.Millisecond)
				switch {
				case act == 0 && !mine[key]: // as another host
					s.upstream.set(k, value)
					model[key] = value
				case act == 1 && !mine[key]:
					s.upstream.remove(k)
					delete(model, key)
				case act == 2:
					s.put(k, value)
					model[key], mine[key] = value, true
				case act == 3:
					want := http.StatusNotFound
					if _, there := model[key]; there {
						want, mine[key] = http.StatusOK, true
						delete(model, key)
					}
					if got := s.do(http.MethodDelete, "/memory/n/"+key, "").Code; got != want {
						t.Fatalf("seed %d: a delete of %s is answered %d, want %d, after %v", seed, key, got, want, steps)
					}
				case act == 4 && mine[key]:
					s.settle(k)
					mine[key] = false
				case act == 5:
					view.breakOff()
					time.Sleep(time.Duration(rng.IntN(100)) * time.Second)
					view.catchUp()
				case act == 6:
					s.cache.Changed("n", key)
				}
				for key := range map[string]bool{key: true, fmt.Sprint("k", rng.IntN(5)): true} {
					w := s.get("/memory/n/" + key)
					want, there := model[key]
					if there && (w.Code != http.StatusOK || valueIn(t, w) != want) || !there && w.Code != http.StatusNotFound {
						t.Fatalf("seed %d: %s is answered %d %s, want %q, after %v", seed, key, w.Code, w.Body, want, steps)
					}
				}
				if listed := keysIn(t, s.get("/memory/n")); len(listed) != len(model) {
					t.Fatalf("seed %d: %v are listed, want %v, after %v", seed, listed, model, steps)
				}
			}
		})
	}
}

// BenchmarkViewList lists a namespace of 100,000 keys from a view; the cache does not have it.
func BenchmarkViewList(b *testing.B) {
	view, keys := newFakeView(), 100_000
	of := make(map[string]fakeVersion, keys)
	for i := range keys {
		key := fmt.Sprint("key-", i)
		of[key] = fakeVersion{journal.Row{Key: key, ListBytes: 100, UpdatedAt: 1e9 + float64(i), Origin: journal.Origin{At: 1e9 + float64(i)}}, true}
	}
	view.held["ns"] = of
	s := onDisk(b, func(o *proxy.Options) { o.View, o.Exact = view, true })
	d := &discard{header: make(http.Header)}
	for _, limit := range []int{100, 1000} {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, fmt.Sprint("/memory/ns?limit=", limit), http.NoBody)
		b.Run(fmt.Sprint(limit), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.cache.Changed("ns", "")
				send(b, s.Server, d, r)
			}
		})
	}
}

// BenchmarkViewGet is BenchmarkGet of a settled copy beneath a view.
func BenchmarkViewGet(b *testing.B) {
	view := newFakeView()
	view.held["ns"] = map[string]fakeVersion{"k": {journal.Row{Key: "k", UpdatedAt: 1}, true}}
	s := onDisk(b, func(o *proxy.Options) { o.View, o.Exact = view, true })
	d := &discard{header: make(http.Header)}
	send(b, s.Server, d, putRequest(b))
	w, _, err := s.journal.Newest(id("ns", "k"))
	noError(b, err)
	noError(b, s.journal.Settle(w))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/memory/ns/k", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		send(b, s.Server, d, r)
	}
	if got := d.header.Get("Cache-Status"); !strings.HasPrefix(got, hit) {
		b.Errorf("Cache-Status %q", got)
	}
}
